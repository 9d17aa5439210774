"""An ended run is queued again, as it was or with a changed spec. Its worker finds the checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from horizon_app.contracts.checkpoints import find_checkpoints, whole_ones
from horizon_app.contracts.confinement import LeadsOut, require_all_inside
from horizon_app.contracts.knobs import Knob, with_knobs
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.errors import NothingToResume, RunIsLive, RunNotFound
from horizon_app.control.last_worker import wait_for_last_worker
from horizon_app.control.lifecycle import change_state
from horizon_app.control.model_folder import read_model_facts
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.spec_changes import laid_over
from horizon_app.control.submission import Place, disk_folder, room_problems
from horizon_app.planning import feasibility
from horizon_app.store.database import Database
from horizon_app.store.queue import rank_before
from horizon_app.store.runs import StoredOrder, StoredRun, get_order, get_run, update_run

FIXED = (
    "name", "tags", "notes", "model", "data", "training.global_batch_size", "training.seed", "training.gradient_ema",
)  # fmt: skip
"""What decides which model a checkpoint holds and which data it has seen, and what has verbs of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    spec: RunSpec
    disk_dir: str | None
    device: str
    total_steps: int | None
    reason: str


def resume(
    database: Database, run_id: str, changes: Mapping[str, Any], place: Callable[[StoredOrder], Place], *, who: str
) -> None:
    """Queue an ended run again; `changes` are new values of its spec by dotted key.

    A finished one must be given more steps. Raises RunNotFound, RunIsLive, NothingToResume, SpecRefused.
    """
    run, order = _read(database, run_id)
    # What was changed while it ran is in force still; `changes` are laid over that.
    order = replace(order, spec=with_knobs(order.spec, {Knob(name): value for name, value in run.knobs.items()}))
    where = place(order)
    plan = _plan(run, order, changes, where)
    folder = RunFolder(where.runs_dir, run_id)
    wait_for_last_worker(run, folder)
    with database.write() as tx:
        now = get_run(tx, run_id, lock=True)
        if now is None:
            raise RunNotFound(run_id)
        if now.state not in ENDED:  # somebody was quicker
            raise RunIsLive(run_id=run_id, state=now.state, action="resumed")
        folder.forget_last_worker()
        update_run(
            tx, run_id, spec=plan.spec.model_dump(mode="json"), disk_dir=plan.disk_dir, total_steps=plan.total_steps,
            queue_device=plan.device, queue_rank=rank_before(tx, plan.device),
            share_device=plan.spec.offload.share_device,
            held=False, knobs={}, archived_at=None, pid=None, process_start=None, outcome=None,
            # A journal that was lost with its folder begins anew: what follows is read from there.
            journal_bytes=now.journal_bytes if folder.journal_bytes() >= now.journal_bytes else 0,
        )  # fmt: skip
        change_state(tx, run_id, RunState.QUEUED, plan.reason, who=who)


def _read(database: Database, run_id: str) -> tuple[StoredRun, StoredOrder]:
    with database.read() as tx:
        run, order = get_run(tx, run_id), get_order(tx, run_id)
    if run is None or order is None:
        raise RunNotFound(run_id)
    if run.state not in ENDED:
        raise RunIsLive(run_id=run_id, state=run.state, action="resumed")
    return run, order


def _plan(run: StoredRun, order: StoredOrder, changes: Mapping[str, Any], place: Place) -> _Plan:
    _refuse_fixed(changes)
    old, new = parse_spec(order.spec), parse_spec(laid_over(order.spec, changes))
    if run.state is RunState.FINISHED and not _is_longer(old, new):
        field = "training.epochs" if old.training.epochs else "training.optimizer_steps"
        raise NothingToResume(
            f"run {run.id} is finished: all {run.step} optimizer steps are done. To go on, set {field} to more; the "
            "learning rate then follows its schedule as if that had been planned from the beginning"
        )
    problems: list[FieldProblem] = []
    disk_dir = order.disk_dir
    if new.offload.disk_path != old.offload.disk_path:
        folder = disk_folder(new, place.rules, problems)
        disk_dir = None if folder is None else str(folder)
    whole = whole_ones(find_checkpoints(RunFolder(place.runs_dir, run.id).path), run.id)
    facts = read_model_facts(whole[-1][0].folder if whole else _first_model(order))
    machine = place.machine_facts(Path(disk_dir) if disk_dir else place.runs_dir)
    problems += feasibility.check(new, facts, machine)
    problems += room_problems(new, facts, place.runs_dir, at_once=1)
    if problems:
        raise SpecRefused(problems)
    return _Plan(
        spec=new,
        disk_dir=disk_dir,
        device=machine.device(new.offload.device),
        total_steps=new.training.named_steps,
        reason=_reason(whole[-1][1].step if whole else 0),
    )


def _first_model(order: StoredOrder) -> Path:
    """The folder that the run began with; it may be a link to another one by now."""
    folder = Path(order.model_dir)
    try:
        require_all_inside(folder, None if order.folders is None else [Path(text) for text in order.folders])
    except LeadsOut as error:
        raise SpecRefused([FieldProblem(field="model.path", message=error.message, fix=error.fix)]) from error
    return folder


def _refuse_fixed(changes: Mapping[str, Any]) -> None:
    fix = "leave it out, or start a new run whose model.path is the checkpoint's folder"
    problems = [
        FieldProblem(field=key, message="can't be changed when a run goes on", fix=fix)
        for key in changes
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED)
    ]
    if problems:
        raise SpecRefused(problems)


def _is_longer(old: RunSpec, new: RunSpec) -> bool:
    if old.training.epochs is not None and new.training.epochs is not None:
        return new.training.epochs > old.training.epochs
    before, after = old.training.named_steps, new.training.named_steps
    if before is not None and after is not None:
        return after > before
    return True  # counted in another way now: the worker finds out


def _reason(step: int) -> str:
    return f"goes on from the checkpoint of step {step}" if step else "has no checkpoint yet: begins again at step 1"
