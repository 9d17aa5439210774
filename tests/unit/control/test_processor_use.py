import psutil
import pytest

from horizon_app.control.machine import ProcessorUse


def test_processor_use_asked_twice_at_once_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of one page ask a millisecond apart; the second one's interval would be that millisecond."""
    measured, clock = iter([0.0, 87.0, 0.0, 12.0]), [0.0]
    monkeypatch.setattr(psutil, "cpu_percent", lambda: next(measured))
    use = ProcessorUse(lambda: clock[0])
    clock[0] = 40.0
    assert use.percent() == 87.0
    clock[0] = 40.001
    assert use.percent() == 87.0
    clock[0] = 41.0
    assert use.percent() == 0.0, "a whole second without work"
    clock[0] = 43.0
    assert use.percent() == 12.0
