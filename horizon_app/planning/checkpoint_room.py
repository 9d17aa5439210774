"""Whether the disk has room for a run's checkpoints, from numbers alone."""

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import RunSpec

PLANE_BYTES = 4
"""Of a parameter on each plane that a checkpoint holds: all are fp32, 8-bit moments too."""
SPARE_BYTES = 4 << 20
"""Left free beside them: the journal and the database grow on the same disk."""


def checkpoint_bytes(spec: RunSpec, parameters: int) -> int:
    """One checkpoint: masters, two moments, and the moving average over gradients where there is one."""
    planes = 4 if spec.training.gradient_ema > 0 else 3
    return parameters * PLANE_BYTES * planes


def most_at_once(spec: RunSpec) -> int:
    """How many checkpoints lie beside each other: the oldest goes once the newest is whole."""
    every, steps = spec.checkpoint.every, spec.training.optimizer_steps
    if not every:
        return 1
    saves = spec.checkpoint.keep + 1 if steps is None else -(-steps // every)
    return min(spec.checkpoint.keep + 1, saves)


def check(spec: RunSpec, parameters: int, *, at_once: int, folder: str, free_bytes: int) -> list[FieldProblem]:
    """What keeps `at_once` checkpoints from being written below `folder`."""
    each = checkpoint_bytes(spec, parameters)
    need = at_once * each + SPARE_BYTES
    if need <= free_bytes:
        return []
    fit = max(0, free_bytes - SPARE_BYTES) // each
    short = need - free_bytes
    if fit >= 2:
        field, fix = "checkpoint.keep", f"set it to {fit - 1}, or free {short:,} bytes there"
    else:
        field, fix = "checkpoint", f"free {short:,} bytes there, or choose a home folder on another disk"
    what = f"{at_once} checkpoints at once need" if at_once > 1 else "a checkpoint needs"
    message = (
        f"{what} {need:,} bytes ({parameters:,} parameters, {each:,} bytes each time), but {folder} has "
        f"{free_bytes:,} bytes free"
    )
    return [FieldProblem(field=field, message=message, fix=fix)]
