"""Runs as a notebook shows them: one line of text, a small table."""

from collections.abc import Sequence
from html import escape

from horizon_app.contracts.run_view import Run

_HEADINGS = ("id", "name", "state", "step", "loss", "tokens/s", "created")


def run_line(run: Run) -> str:
    """A run in one line."""
    loss = run.metrics.get("train/loss")
    shown = "" if loss is None else f", loss {loss:.4f}"
    return f"<Run {run.id} {run.name!r}: {run.state.value}, step {_steps(run)}{shown}>"


def run_table(runs: Sequence[Run]) -> str:
    """Runs as an HTML table; every text in it is escaped."""
    head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(run))}</tr>" for run in runs)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(run: Run) -> tuple[str, ...]:
    created = run.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    loss, speed = run.metrics.get("train/loss"), run.metrics.get("throughput/tokens_per_second")
    return (
        run.id, run.name, run.state.value, _steps(run), "–" if loss is None else f"{loss:.4f}",
        "–" if speed is None else f"{speed:,.0f}", created,
    )  # fmt: skip


def _steps(run: Run) -> str:
    return f"{run.step}/{run.total_steps or '?'}"
