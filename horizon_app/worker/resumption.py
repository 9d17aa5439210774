"""Where a run goes on from, whether it may, and what the user is told of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from horizon_app.contracts.checkpoints import SPEC, CheckpointManifest
from horizon_app.contracts.run_spec import Init, RunSpec
from horizon_app.engine.optim.lr_schedule import LearningRate
from horizon_app.worker.order import RunOrder


class DataChanged(Exception):
    """The data are other than those that the checkpoint was trained on: its place in them means nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The first step's model and spec, and the checkpoint that they come from, where there is one."""

    spec: RunSpec
    model_dir: Path
    manifest: CheckpointManifest | None

    @property
    def step(self) -> int:
        """Optimizer steps done before."""
        return 0 if self.manifest is None else self.manifest.step


def start_from(order: RunOrder, found: tuple[Path, CheckpointManifest] | None) -> Start:
    """Begin with the model that the spec names, or go on with the one in a checkpoint."""
    if found is None:
        return Start(spec=order.spec, model_dir=order.model_dir, manifest=None)
    model = order.spec.model.model_copy(update={"init": Init.PRETRAINED})
    return Start(spec=order.spec.model_copy(update={"model": model}), model_dir=found[0], manifest=found[1])


def refuse_other_data(start: Start, fingerprint: str) -> None:
    """Raise DataChanged where the sequences are not those of the checkpoint."""
    if start.manifest is not None and start.manifest.data_fingerprint != fingerprint:
        raise DataChanged(
            f"the data have changed since the checkpoint of step {start.step} (fingerprint "
            f"{start.manifest.data_fingerprint[:12]} then, {fingerprint[:12]} now), so it can't be gone on with "
            "exactly; put the files back as they were, or start a new run whose model.path is the checkpoint"
        )


def resumed_message(start: Start, total_steps: int) -> tuple[str, dict[str, Any]]:
    """What is told when a run goes on: from where, what of the spec is new, and how the learning rate changes."""
    if start.manifest is None:
        return "no checkpoint is there: it begins again at optimizer step 1", {"step": 0, "total_steps": total_steps}
    before = _spec_of(start.model_dir)
    changed = _differences(before, start.spec.model_dump(mode="json"))
    parts = [f"resumed from the checkpoint of optimizer step {start.step} of {total_steps}"]
    if changed:
        parts.append("with " + ", ".join(f"{key} {new} instead of {old}" for key, (old, new) in changed.items()))
    data: dict[str, Any] = {
        "step": start.step, "total_steps": total_steps,
        "changed": {key: {"old": old, "new": new} for key, (old, new) in changed.items()},
    }  # fmt: skip
    rates = _rates(before, start, total_steps)
    if rates is not None:
        old_rate, new_rate = rates
        schedule = start.spec.training.schedule.value
        parts.append(
            f"the learning rate follows the {schedule} schedule as if it had been planned over {total_steps} steps "
            f"from the beginning: step {start.step + 1} has {new_rate:.3g}, step {start.step} had {old_rate:.3g}"
        )
        data |= {"old_learning_rate": old_rate, "new_learning_rate": new_rate}
    return "; ".join(parts), data


def _spec_of(folder: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads((folder / SPEC).read_bytes()))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> dict[str, tuple[Any, Any]]:
    """Values of a spec that are others now, by dotted key; `model.init` is decided by the resumption itself."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in new.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            found |= _differences(old[key], cast("dict[str, Any]", value), f"{name}.")
        elif old.get(key) != value and name != "model.init":
            found[name] = (old.get(key), value)
    return found


def _rates(before: Mapping[str, Any], start: Start, total_steps: int) -> tuple[float, float] | None:
    """The rate of the last step done and of the next, where they are of two schedules."""
    manifest, now = start.manifest, start.spec.training
    if manifest is None:
        return None
    then = RunSpec.model_validate(before).training
    old = LearningRate(
        peak=then.learning_rate, schedule=then.schedule, warmup=then.warmup_steps, total_steps=manifest.total_steps
    )
    new = LearningRate(peak=now.learning_rate, schedule=now.schedule, warmup=now.warmup_steps, total_steps=total_steps)
    return None if old == new else (old.at(start.step), new.at(start.step + 1))
