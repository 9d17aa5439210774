"""Identifiers. Knows nothing of what they name."""

import re
import secrets
from datetime import UTC, datetime
from typing import NewType

RunId = NewType("RunId", str)

RUN_ID_PATTERN = r"^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$"


def new_run_id(now: datetime | None = None) -> RunId:
    """A fresh run id that sorts by its time of creation (UTC) and is safe as a folder name."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    return RunId(f"{moment}-{secrets.token_hex(3)}")


def is_run_id(text: str) -> bool:
    """Whether `text` has the shape of a run id; checked before it becomes part of a path."""
    return re.fullmatch(RUN_ID_PATTERN, text) is not None
