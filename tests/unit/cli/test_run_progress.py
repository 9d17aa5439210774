import io

from rich.console import Console

from horizon_app.cli.run_progress import RunProgress
from horizon_app.contracts.frames import FactFrame, LogFrame, MetricsFrame, SampleFrame, StateFrame
from horizon_app.contracts.run_state import RunState


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, soft_wrap=True, color_system=None)
    with RunProgress(console) as progress:
        progress.show(StateFrame(seq=1, state=RunState.RUNNING))
        progress.show(FactFrame(seq=2, kind="plan", message="", data={"total_steps": 40}))
        for step in (1, 2):
            values = {"train/loss": 2.5, "throughput/tokens_per_second": 1234.0, "prefetch/hit_rate": None}
            progress.show(MetricsFrame(seq=2 + step, step=step, values=values))
        progress.show(LogFrame(seq=5, level="warning", message="[odd] brackets"))
        progress.show(LogFrame(seq=6, level="info", message="chatter"))
        progress.show(MetricsFrame(seq=7, step=2, values={"eval/loss": 1.5, "eval/perplexity": 4.4817}))
        progress.show(SampleFrame(seq=8, step=2, prompt="Hi", text="there\x1b[2J", num_tokens=2, ending="stop"))
    return out.getvalue()


def test_progress_without_a_terminal_writes_a_line_now_and_then() -> None:
    assert shown(terminal=False).splitlines() == [
        "step 1/40  loss 2.5000  1,234 tokens/s  hit rate –",
        "warning: [odd] brackets",
        "step 2, eval loss 1.5000, perplexity 4.48",
        "step 2, sample: Hi → there\\x1b[2J",
    ]


def test_progress_on_a_terminal_draws_the_newest_numbers() -> None:
    text = shown(terminal=True)
    assert "2/40  loss 2.5000  1,234 tokens/s  hit rate –" in text
    assert "warning: [odd] brackets" in text
    assert "chatter" not in text
