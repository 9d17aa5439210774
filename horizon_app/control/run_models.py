"""The models that a run has saved: which of its checkpoints is meant, and where it lies."""

from dataclasses import dataclass
from pathlib import Path

from horizon_app.contracts.run_view import RunDetail
from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.control.errors import NothingRecorded
from horizon_app.control.model_folder import is_model_folder
from horizon_app.control.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedModel:
    """A checkpoint that is there."""

    step: int
    folder: Path
    run_dir: Path
    chat_template: ChatTemplate
    """What its chats were rendered with."""


def saved_model(run: RunDetail, runs_dir: Path, step: int | None) -> SavedModel:
    """A checkpoint of a run, the newest whole one where no step is named. Raises NothingRecorded."""
    run_dir = RunFolder(runs_dir, run.id).path
    whole = {c.step: run_dir / c.path for c in run.checkpoints if not c.broken and is_model_folder(run_dir / c.path)}
    if step is None and whole:
        step = max(whole)
    if step is None:
        broken = "".join(f"; that of step {c.step} can't be used: {c.broken}" for c in run.checkpoints if c.broken)
        raise NothingRecorded(
            f"run {run.id} has no whole checkpoint: it is {run.state.value} at step {run.step}{broken}"
        )
    if step not in whole:
        why = next((f" that can be used: {c.broken}" for c in run.checkpoints if c.step == step and c.broken), "")
        steps = ", ".join(str(known) for known in sorted(whole)) or "none"
        raise NothingRecorded(f"run {run.id} has no checkpoint of step {step}{why}; there are: {steps}")
    template = ChatTemplate(run.spec["data"].get("chat_template", ChatTemplate.TOKENIZER))
    return SavedModel(step=step, folder=whole[step], run_dir=run_dir, chat_template=template)
