"""What `horizon runs watch` draws: one run from its frames, the queue from its answers."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from horizon_app.cli.sparkline import sparkline
from horizon_app.cli.watched_queue import WatchedQueue
from horizon_app.cli.watched_run import LINES_SHOWN, WatchedRun
from horizon_app.contracts.frames import FRAME
from horizon_app.contracts.run_view import Run, RunDetail
from tests.support.made_up_server import document


def drawn(view: RenderableType, width: int = 100) -> list[str]:
    """The lines of a view on a terminal without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def take(view: WatchedRun, *frames: dict[str, Any]) -> None:
    for number, frame in enumerate(frames):
        view.take(FRAME.validate_python({"seq": number + 1, **frame}))


def metrics(step: int, **values: float) -> dict[str, Any]:
    keyed = {key.replace("__", "/"): value for key, value in values.items()}
    return {"type": "metrics", "step": step, "values": keyed}


def test_run_shows_state_steps_time_left_numbers_and_tiers() -> None:
    view = WatchedRun(RunDetail.model_validate(document(total_steps=100)))
    numbers = {"throughput__tokens_per_second": 1234.4, "prefetch__hit_rate": 0.5, "tier__host_bytes": 3 << 30}
    take(view, metrics(39, train__loss=3.0, time__step=1.0), metrics(40, train__loss=2.0, time__step=3.0, **numbers))
    text = "\n".join(drawn(view))
    assert "tiny  20260131-120000-abcdef" in text and "running" in text
    assert "40/100  2:00 left" in text
    assert "1,234 tokens/s, 50.0% hit rate" in text and "host 3 GiB" in text
    assert f"2.0000  {sparkline([3.0, 2.0])}" in text
    take(view, {"type": "state", "state": "paused", "reason": "asked to pause"})
    assert "left" not in "\n".join(drawn(view))


def test_run_shows_the_newest_lines_without_control_characters_of_others() -> None:
    view = WatchedRun(RunDetail.model_validate(document(name="[red]odd")))
    logs = [{"type": "log", "level": "warning", "message": f"line {number}\x1b[2J"} for number in range(20)]
    take(view, *logs, {"type": "checkpoint", "step": 3, "path": "checkpoints/3", "bytes": 2048})
    lines = drawn(view)
    assert "[red]odd" in lines[1]
    shown = [line for line in lines if "line " in line]
    assert len(shown) == LINES_SHOWN - 1 and shown[-1].endswith("line 19\\x1b[2J")
    assert lines[-2].endswith("checkpoint of step 3, 2 KiB")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_run_fits_the_terminal_and_says_why_it_failed(width: int) -> None:
    view = WatchedRun(RunDetail.model_validate(document()))
    take(view, {"type": "log", "message": "x" * 500}, {"type": "state", "state": "failed", "reason": "word " * 40})
    lines = drawn(view, width)
    assert max(map(len, lines)) <= width
    assert sum(line.count("word") for line in lines[1:-3]) >= 40


def test_losses_of_a_long_run_stay_one_line_over_the_whole_run() -> None:
    view = WatchedRun(RunDetail.model_validate(document(step=0, sparkline=[], total_steps=1000)))
    take(view, *[metrics(step, train__loss=float(-step)) for step in range(1, 1001)])
    (line,) = [line for line in drawn(view) if line.startswith("loss")]
    bars = line.split()[-1]
    assert 20 <= len(bars) <= 48
    assert bars[0] == "█" and bars[-1] == "▁" and list(bars) == sorted(bars, reverse=True)


def test_sparkline_of_gaps_and_of_equal_values_has_a_place_for_each() -> None:
    assert sparkline([]) == sparkline([None]) == ""
    assert sparkline([1.0, None, 1.0]) == "▁ ▁"
    assert sparkline([0.0, 1.0]) == "▁█"


def queued(run_id: str, **changes: Any) -> Run:
    return Run.model_validate(document(run_id, **changes))


def test_queue_gives_what_changed_and_names_what_has_left() -> None:
    watched = WatchedQueue()
    first, second = queued("a"), queued("b", state="queued", queue_position=1)
    assert watched.take([first, second]) == [first, second]
    assert watched.take([first, second]) == []
    moved = queued("b", state="starting")
    assert watched.missing([moved]) == ["a"]
    assert watched.take([moved]) == [moved]


@pytest.mark.parametrize(("width", "headings"), [(160, ("hit rate", "host")), (100, ("tokens/s",)), (60, ("left",))])
def test_queue_shows_as_many_columns_as_fit(width: int, headings: tuple[str, ...]) -> None:
    watched = WatchedQueue()
    watched.take([queued("a", metrics={"time/step": 2.0}), queued("b", state="queued", queue_position=1, held=True)])
    lines = drawn(watched, width)
    assert all(heading in lines[0] for heading in headings)
    assert "3/9" in lines[1] and "12.0 s" in lines[1] and "tiny" in lines[1]
    assert "held, 1 on cpu" in lines[2]
    assert max(map(len, lines)) <= width
