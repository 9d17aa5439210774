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
    """A checkpoint of a run, the newest where no step is named. Raises NothingRecorded."""
    run_dir = RunFolder(runs_dir, run.id).path
    there = {c.step: run_dir / c.path for c in run.checkpoints if is_model_folder(run_dir / c.path)}
    if step is None and there:
        step = max(there)
    if step is None:
        raise NothingRecorded(f"run {run.id} has no checkpoint yet: it is {run.state.value} at step {run.step}")
    if step not in there:
        steps = ", ".join(str(known) for known in sorted(there)) or "none"
        raise NothingRecorded(f"run {run.id} has no checkpoint of step {step}; there are: {steps}")
    template = ChatTemplate(run.spec["data"].get("chat_template", ChatTemplate.TOKENIZER))
    return SavedModel(step=step, folder=there[step], run_dir=run_dir, chat_template=template)
