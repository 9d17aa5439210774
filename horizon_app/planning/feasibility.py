"""Whether a spec can run on a machine, from numbers alone; every "no" names the field, the numbers and a fix."""

import math

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import Compute, Disk, Init, OffloadSpec, OptimizerState, RunSpec
from horizon_app.contracts.sizes import format_size
from horizon_app.planning.facts import MachineFacts, ModelFacts

MASTER_BYTES = 4
GRADIENT_BYTES = 4
AVERAGE_BYTES = 4
MOMENT_BYTES = {OptimizerState.FP32: 4.0, OptimizerState.INT8: 1 + 4 / 256}
"""Of one moment of one parameter: 8-bit moments have an fp32 scale for each run of 256."""
_FULL_WORD = 4
_HALF_WORD = 2
_MIB = 1 << 20


def check(spec: RunSpec, model: ModelFacts, machine: MachineFacts) -> list[FieldProblem]:
    """Everything that would keep the run from starting."""
    found = [*_model(spec, model), *_device(spec, machine)]
    if not found:
        found = [*_block_size(spec, model), *_memory(spec, model, machine)]
    return found


def host_bytes_per_parameter(spec: RunSpec) -> float:
    """The least that host and disk together hold of a parameter.

    Master, two moments, gradient, the moving average where there is one, and a 16-bit copy where one is asked for.
    """
    copy = _HALF_WORD if spec.precision.compute in (Compute.BF16, Compute.FP16) else 0
    average = AVERAGE_BYTES if spec.training.gradient_ema > 0 else 0
    return MASTER_BYTES + 2 * MOMENT_BYTES[spec.precision.optimizer_state] + GRADIENT_BYTES + average + copy


def _model(spec: RunSpec, model: ModelFacts) -> list[FieldProblem]:
    if model.obstacle:
        return [FieldProblem(field="model.path", message=model.obstacle, fix="choose a causal language model's folder")]
    found: list[FieldProblem] = []
    if spec.model.init is Init.PRETRAINED and model.weights_obstacle:
        fix = "set model.init to random to train from scratch, or convert the weights with `horizon model convert`"
        found.append(FieldProblem(field="model.path", message=model.weights_obstacle, fix=fix))
    if not model.has_tokenizer:
        message = "the model's folder has no tokenizer (tokenizer.json, tokenizer.model or vocab files)"
        found.append(FieldProblem(field="model.path", message=message, fix="copy the tokenizer's files into it"))
    if fault := tokenizer_fault(model):
        fix = "take the tokenizer that belongs to the model, or a checkpoint with more rows"
        found.append(FieldProblem(field="model.path", message=fault, fix=fix))
    if spec.data.packing and model.recurrent_layers:
        message = (
            f"the model has layers of the kind {model.recurrent_layers}, in which packed samples leak into each other"
        )
        found.append(FieldProblem(field="data.packing", message=message, fix="set it to false"))
    return found


def tokenizer_fault(model: ModelFacts) -> str:
    """Why the tokenizer can't be used with the embedding; empty where it can."""
    largest, rows = model.largest_token_id, model.embedding_rows
    if largest is None or rows is None or largest < rows:
        return ""
    return f"the tokenizer's largest token id is {largest}, but the embedding has {rows} rows (ids 0 to {rows - 1})"


def _device(spec: RunSpec, machine: MachineFacts) -> list[FieldProblem]:
    device = spec.offload.device
    if not device.startswith("cuda"):
        return []
    index = int(device.partition(":")[2] or 0)
    if index < machine.cuda_devices:
        return []
    have = f"{machine.cuda_devices} CUDA cards" if machine.cuda_devices else "no CUDA card"
    return [
        FieldProblem(
            field="offload.device", message=f"{device} is asked for, but this machine has {have}",
            fix="set offload.device to auto or cpu",
        )
    ]  # fmt: skip


def _block_size(spec: RunSpec, model: ModelFacts) -> list[FieldProblem]:
    block = spec.offload.param_block_size
    if model.widest_row is None or not isinstance(block, int):
        return []
    name, elements = model.widest_row
    row_bytes = elements * (_FULL_WORD if spec.precision.compute is Compute.FP32 else _HALF_WORD)
    if block >= row_bytes:
        return []
    need = -(-row_bytes // 4096) * 4096
    return [
        FieldProblem(
            field="offload.param_block_size",
            message=f"{format_size(block)} can't hold one row of {name}, which has {row_bytes} bytes",
            fix=f"set it to {format_size(need)} or more",
        )
    ]


def _memory(spec: RunSpec, model: ModelFacts, machine: MachineFacts) -> list[FieldProblem]:
    """Whether host and disk tier together have room for every plane; where they lie is the engine's business."""
    if model.parameters is None:
        return []
    each = host_bytes_per_parameter(spec)
    need = math.ceil(model.parameters * each)
    what = f"{_mib(need)} ({model.parameters:,} parameters x {each:g} bytes)"
    if spec.offload.disk is Disk.OFF:
        return _host_alone(spec.offload, machine, need, what)
    return _host_and_disk(spec.offload, machine, need, what)


def _host_alone(offload: OffloadSpec, machine: MachineFacts, need: int, what: str) -> list[FieldProblem]:
    limit = offload.host_memory
    have = limit if isinstance(limit, int) else machine.host_bytes
    if need <= have:
        return []
    fixes: list[str] = []
    if isinstance(limit, int) and need <= machine.host_bytes:
        fixes.append(f"set it to {_at_least(need)} or more")
    if need <= have + machine.disk_free_bytes:
        fixes.append("set offload.disk to auto")
    message = f"the host tier needs {what}, but {_host_room(limit, machine)}, and offload.disk is off"
    fix = ", or ".join(fixes) or "train a smaller model, or on a machine with more memory"
    return [FieldProblem(field="offload.host_memory", message=message, fix=fix)]


def _host_and_disk(offload: OffloadSpec, machine: MachineFacts, need: int, what: str) -> list[FieldProblem]:
    limit, free = offload.host_memory, machine.disk_free_bytes
    host = limit if isinstance(limit, int) else machine.host_bytes
    disk = free if offload.disk_memory is None else min(offload.disk_memory, free)
    if need <= host + disk:
        return []
    disk_room = f"the disk tier's folder has {_mib(free)} free"
    if offload.disk_memory is not None:
        disk_room += f" of which offload.disk_memory allows {_mib(offload.disk_memory)}"
    message = f"host and disk tier need {what}, but {_host_room(limit, machine)}, and {disk_room}"
    if disk < free and need <= host + free:
        field, fix = "offload.disk_memory", f"set it to {_at_least(need - host)} or more"
    elif isinstance(limit, int) and need <= machine.host_bytes + disk:
        field, fix = "offload.host_memory", f"set it to {_at_least(need - disk)} or more"
    else:
        field, fix = "offload.disk_path", f"name a folder with {_at_least(need - host)} free, or train a smaller model"
    return [FieldProblem(field=field, message=message, fix=fix)]


def _host_room(limit: int | str, machine: MachineFacts) -> str:
    if isinstance(limit, int):
        return f"offload.host_memory allows {_mib(limit)}"
    return f"this machine has {_mib(machine.host_bytes)} of memory"


def _mib(num_bytes: int) -> str:
    mib = num_bytes / _MIB
    return f"{mib:,.0f} MiB" if mib >= 100 else f"{mib:.2f} MiB"


def _at_least(num_bytes: int) -> str:
    return f"{-(-num_bytes // _MIB)}MiB"
