"""What is asked of the history, as REST takes it: which runs are listed, and what is compared of some."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from horizon_app.contracts.comparison import Axis


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Which runs are listed."""

    state: str | None = None
    """One state, or several with commas between."""
    tag: str | None = None
    q: str | None = None
    archived: Literal["true", "all"] | None = None
    sort: str = "-created_at"
    limit: int = 50
    cursor: str | None = None

    def given(self) -> dict[str, Any]:
        """The fields that ask for something."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareQuery:
    """What is compared of runs."""

    keys: Sequence[str] | None = None
    max_points: int = 500
    axis: str = Axis.STEP
    """What the curves are drawn over: an `Axis`, or a word that the server takes for one."""

    def given(self) -> dict[str, Any]:
        """The question as REST takes it."""
        keys = {} if self.keys is None else {"keys": ",".join(self.keys)}
        return {"max_points": self.max_points, "x": str(self.axis), **keys}
