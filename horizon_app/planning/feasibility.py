"""Whether a spec can run on a machine, from numbers alone; every "no" names the field, the numbers and a fix."""

from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_spec import Compute, Init, RunSpec
from horizon_app.contracts.spec_fields import format_size
from horizon_app.planning.facts import MachineFacts, ModelFacts

MASTER_BYTES = 4
MOMENT_BYTES = 4
GRADIENT_BYTES = 4
_FULL_WORD = 4
_HALF_WORD = 2
_MIB = 1 << 20


def check(spec: RunSpec, model: ModelFacts, machine: MachineFacts) -> list[FieldProblem]:
    """Everything that would keep the run from starting."""
    found = [*_model(spec, model), *_device(spec, machine)]
    if not found:
        found = [*_block_size(spec, model), *_host_memory(spec, model, machine)]
    return found


def host_bytes_per_parameter(compute: Compute) -> int:
    """The least host memory of a parameter: master, two moments, gradient, and a 16-bit copy where one is asked for."""
    copy = _HALF_WORD if compute in (Compute.BF16, Compute.FP16) else 0
    return MASTER_BYTES + 2 * MOMENT_BYTES + GRADIENT_BYTES + copy


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
    return found


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


def _host_memory(spec: RunSpec, model: ModelFacts, machine: MachineFacts) -> list[FieldProblem]:
    if model.parameters is None:
        return []
    limit = spec.offload.host_memory
    have = limit if isinstance(limit, int) else machine.host_bytes
    each = host_bytes_per_parameter(spec.precision.compute)
    need = model.parameters * each
    if need <= have:
        return []
    whose = "offload.host_memory allows" if isinstance(limit, int) else "this machine has"
    message = (
        f"the host tier needs {need / _MIB:,.0f} MiB ({model.parameters:,} parameters x {each} bytes), "
        f"but {whose} {have / _MIB:,.0f} MiB"
    )
    can_raise = isinstance(limit, int) and need <= machine.host_bytes
    fix = (
        f"set it to {-(-need // _MIB)}MiB or more"
        if can_raise
        else "train a smaller model, or on a machine with more memory"
    )
    return [FieldProblem(field="offload.host_memory", message=message, fix=fix)]
