"""Checks: what was looked at, what is expected of it, how it stands, and what to do."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Verdict(StrEnum):
    """How a check came out; the later word is the worse one."""

    UNKNOWN = "unknown"
    """Too little is known yet to say anything."""
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def asks_for_something(self) -> bool:
        """Whether somebody should do something about it."""
        return self in (Verdict.WARNING, Verdict.PROBLEM)


class Check(BaseModel):
    """One item of a checklist."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="a stable name, for example disk_space")
    title: str
    verdict: Verdict
    evidence: str = Field(description="what was found, with the numbers")
    threshold: str = Field(description="what is expected; empty where anything is fine")
    fix: str = Field(default="", description="what to do about it; empty where nothing has to be done")


class MachineReport(BaseModel):
    """Whether this machine is fit for training."""

    model_config = ConfigDict(frozen=True)

    version: str = Field(description="of Horizon")
    home: str
    time: datetime
    verdict: Verdict = Field(description="that of the worst check")
    checks: list[Check]


def worst(checks: Sequence[Check]) -> Verdict:
    """The worst verdict among these."""
    order = list(Verdict)
    return max((check.verdict for check in checks), key=order.index, default=Verdict.OK)
