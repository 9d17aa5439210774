"""From a decoded spec to a queued run, or to every problem that keeps it from running."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from horizon_app.contracts.confinement import LeadsOut, require_all_inside
from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.ids import RunId, new_run_id
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.errors import KeyReused
from horizon_app.control.labels import label_from, label_problems
from horizon_app.control.lifecycle import create_run
from horizon_app.control.model_folder import is_model_folder, read_model_facts
from horizon_app.control.paths import PathRefused, PathRules
from horizon_app.planning import checkpoint_room, feasibility
from horizon_app.planning.facts import MachineFacts, ModelFacts
from horizon_app.store.database import Database, Transaction, dump_json
from horizon_app.store.runs import NewRun, find_by_key, get_order, get_run


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a run would run."""

    rules: PathRules
    runs_dir: Path
    machine_facts: Callable[[Path], MachineFacts]
    """What the machine has, with the disk tier in a folder."""
    check_data: Callable[[DataSpec, Sequence[Path], Path], list[FieldProblem]]
    """What is wrong with the data, as the tokenizer in a model's folder sees it."""


def submit(
    database: Database, document: Any, place: Place,
    *, start: bool, key: str | None, who: str, cloned_from: str | None = None,
) -> RunId:  # fmt: skip
    """Check a spec and queue it; a `key` that was used before gives the run of that time.

    Raises SpecRefused, and KeyReused where that run was asked for by another spec.
    """
    with database.read() as tx:
        before = _earlier(tx, key, document, cloned_from)
    if before is not None:
        return before
    run = _accept(document, place, held=not start, key=key, cloned_from=cloned_from)
    with database.write() as tx:
        before = _earlier(tx, key, document, cloned_from)  # a double click may have come in between
        if before is not None:
            return before
        create_run(tx, run, who=who)
    return run.id


def _earlier(tx: Transaction, key: str | None, document: Any, cloned_from: str | None) -> RunId | None:
    run_id = None if key is None else find_by_key(tx, key)
    if run_id is None:
        return None
    run, order = get_run(tx, run_id), get_order(tx, run_id)
    assert run is not None and order is not None, "the transaction has just found it"
    same = order.asked is None or order.asked == json.loads(dump_json(document))
    if not same or run.cloned_from != cloned_from:
        raise KeyReused(key=str(key), run_id=run_id)
    return run_id


def _accept(document: Any, place: Place, *, held: bool, key: str | None, cloned_from: str | None) -> NewRun:
    spec = parse_spec(document)
    problems = label_problems(name=spec.name, tags=spec.tags, notes=spec.notes)
    model_dir, facts = _model(spec, place.rules, problems)
    data_paths = place.rules.resolve_all("data.path", spec.data.path, problems)
    eval_paths = place.rules.resolve_all("data.eval_path", spec.data.eval_path or [], problems)
    disk_dir = disk_folder(spec, place.rules, problems)
    machine = place.machine_facts(disk_dir or place.runs_dir)
    if facts is not None:
        problems.extend(feasibility.check(spec, facts, machine))
        problems.extend(room_problems(spec, facts, place.runs_dir, at_once=checkpoint_room.most_at_once(spec)))
    if not problems and model_dir is not None:
        problems.extend(place.check_data(spec.data, data_paths, model_dir))
    if problems or model_dir is None or facts is None:
        raise SpecRefused(problems)
    now = datetime.now(UTC)
    return NewRun(
        id=new_run_id(now),
        name=spec.name or label_from(Path(spec.model.path).name or model_dir.name),
        tags=spec.tags,
        notes=spec.notes,
        held=held,
        created_at=now,
        queue_device=machine.device(spec.offload.device),
        share_device=spec.offload.share_device,
        cloned_from=cloned_from,
        asked=document,
        spec=spec.model_dump(mode="json"),
        model_dir=str(model_dir),
        data_paths=[str(path) for path in data_paths],
        eval_paths=[str(path) for path in eval_paths],
        folders=None if place.rules.roots is None else [str(root) for root in place.rules.roots],
        base_dir=str(place.rules.base),
        disk_dir=None if disk_dir is None else str(disk_dir),
        model_name=model_dir.name,
        architecture=facts.architecture,
        parameters=facts.parameters,
        total_steps=spec.training.named_steps,
        idempotency_key=key,
    )


def _model(spec: RunSpec, rules: PathRules, problems: list[FieldProblem]) -> tuple[Path | None, ModelFacts | None]:
    try:
        folder = rules.resolve(spec.model.path)
        require_all_inside(folder, rules.roots)
    except PathRefused as error:
        problems.append(error.problem("model.path"))
        return None, None
    except LeadsOut as error:
        problems.append(FieldProblem(field="model.path", message=error.message, fix=error.fix))
        return None, None
    if not is_model_folder(folder):
        what = "a folder without config.json" if folder.is_dir() else "not a folder"
        fix = "name a Hugging Face checkpoint folder (config.json, safetensors, tokenizer)"
        problems.append(FieldProblem(field="model.path", message=f"{spec.model.path!r} is {what}", fix=fix))
        return None, None
    return folder, read_model_facts(folder)


def room_problems(spec: RunSpec, model: ModelFacts, runs_dir: Path, *, at_once: int) -> list[FieldProblem]:
    """Whether `at_once` checkpoints can be written where runs lie: asked of that very folder, by writing to it."""
    try:
        with tempfile.TemporaryFile(dir=runs_dir):
            free = shutil.disk_usage(runs_dir).free
    except OSError as error:
        message = f"{runs_dir} can't be written: {error.strerror or error}"
        fix = "free or mend that disk, or choose another home folder"
        return [FieldProblem(field="checkpoint", message=message, fix=fix)]
    if model.parameters is None:
        return []
    return checkpoint_room.check(spec, model.parameters, at_once=at_once, folder=str(runs_dir), free_bytes=free)


def disk_folder(spec: RunSpec, rules: PathRules, problems: list[FieldProblem]) -> Path | None:
    """The folder that the spec names for the disk tier; None for the run's own."""
    text = spec.offload.disk_path
    if text is None:
        return None
    field = "offload.disk_path"
    try:
        folder = rules.resolve(text)
    except PathRefused as error:
        problems.append(error.problem(field))
        return None
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        what = "can't be written" if folder.is_dir() else "is not a folder"
        fix = "name an existing folder on a local disk that can be written"
        problems.append(FieldProblem(field=field, message=f"{text!r} {what}", fix=fix))
        return None
    return folder
