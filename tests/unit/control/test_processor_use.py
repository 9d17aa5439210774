from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from horizon_app.control.machine import ProcessorUse


class Times(NamedTuple):
    user: float
    idle: float


def test_processor_use_asked_twice_at_once_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of one page ask a millisecond apart, on whichever threads; the interval would be that millisecond."""
    measured, clock = iter([Times(0, 0), Times(87, 13), Times(87, 23), Times(99, 111)]), SimpleNamespace(now=0.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(measured))
    use = ProcessorUse(lambda: clock.now)
    clock.now = 40.0
    assert use.percent() == 87.0
    clock.now = 40.001
    assert use.percent() == 87.0
    clock.now = 41.0
    assert use.percent() == 0.0, "a whole second without work"
    clock.now = 43.0
    assert use.percent() == 12.0


def test_processor_use_is_told_to_a_thread_that_never_asked_before() -> None:
    clock = SimpleNamespace(now=0.0)
    use = ProcessorUse(lambda: clock.now)
    busy = psutil.cpu_times().user
    while psutil.cpu_times().user - busy < 0.1:
        sum(range(10_000))
    clock.now = 2.0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(use.percent).result() > 0.0
