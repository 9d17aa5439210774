"""A clock that passes as soon as somebody waits."""

import pytest

from horizon_app.client import transport


class Clock:
    """Time that passes by sleeping, at once."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Takes the place of the clock that attempts go by."""
    passed = Clock()
    monkeypatch.setattr(transport, "time", passed)
    return passed
