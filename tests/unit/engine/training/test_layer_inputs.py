"""Layer inputs put away on the way up and taken on the way down, wherever they wait meanwhile."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.errors import DiskFailed, TierExhausted
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem
from horizon_app.engine.memory.disk_tier import DiskTier
from horizon_app.engine.memory.paged_plane import FEWEST_FRAMES
from horizon_app.engine.memory.planes import Plane
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.training.host_tier import HostFactory, InputRoom
from horizon_app.engine.training.layer_inputs import HeldInputs, HostInputs, Key, LayerInputs
from tests.support.chaos import ChaosBackend
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk

LAYERS, MICRO = 5, 3
SHAPE = (2, 63, 33)  # sequences, tokens, width
PAGE_NUMEL = 63 * 33  # of one sequence
CHUNK = 1000  # a sequence takes several copies
PAGE_BYTES = PAGE_NUMEL * 4
FRAME_BYTES = 3 * 4096  # whole sectors
PAGES = LAYERS * MICRO * SHAPE[0]


def room(limit: int) -> InputRoom:
    """For as many sequences as the tests have at once."""
    return InputRoom(num_pages=PAGES, page_numel=PAGE_NUMEL, dtype=torch.float32, limit=limit, may_page=True)


def factory(folder: Path, system: DiskSystem = OS_DISK, policy: Policy = Policy.CLOCK_PRO) -> HostFactory:
    return HostFactory(DiskTier(folder, system=system), policy=policy, pinned=False, reads_straight=False)


def host_inputs(
    backend: Backend, folder: Path, limit: int, system: DiskSystem = OS_DISK, policy: Policy = Policy.CLOCK_PRO
) -> HostInputs:
    return HostInputs(backend, CHUNK, room(limit), factory(folder, system, policy).new_input_plane)


@pytest.fixture(params=["cpu", "chaos"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend = CpuBackend() if request.param == "cpu" else ChaosBackend(3)
    yield made
    made.close()


@pytest.fixture(params=["held", "ram", "paged"])
def inputs(request: pytest.FixtureRequest, backend: Backend, tmp_path: Path) -> Iterator[LayerInputs]:
    made: LayerInputs = (
        HeldInputs()
        if request.param == "held"
        else host_inputs(backend, tmp_path, {"ram": 1 << 30, "paged": 0}[request.param])
    )
    yield made
    backend.synchronize()
    made.close()


Groups = list[list[Key]]


def sequences(groups: Groups, shape_of: Callable[[Key], tuple[int, ...]] = lambda _: SHAPE) -> list[dict[Key, int]]:
    return [{key: shape_of(key)[0] for key in group} for group in groups]


def downwards(group: list[Key]) -> list[Key]:
    """The order in which a step takes them: micro-batches of a stage as they came."""
    return sorted(group, key=lambda key: -key[0])


LAYER_MAJOR: Groups = [[(stage, m) for stage in range(1, LAYERS + 1) for m in range(MICRO)]]
MICRO_BATCH_MAJOR: Groups = [[(stage, m) for stage in range(1, LAYERS + 1)] for m in range(MICRO)]


def hidden_of(key: Key, step: int, shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    draw = torch.Generator().manual_seed(100 * step + 10 * key[0] + key[1])
    return torch.randn(shape, generator=draw).to(dtype)


def up_and_down(
    inputs: LayerInputs, groups: Groups, step: int, shape_of: Callable[[Key], tuple[int, ...]] = lambda _: SHAPE,
    dtype: torch.dtype = torch.float32,
) -> None:  # fmt: skip
    """One optimizer step: each group up and down, each input brought while the one before it is used."""
    inputs.begin(sequences(groups, shape_of))
    for group in groups:
        for key in group:
            inputs.keep(key, hidden_of(key, step, shape_of(key), dtype))
        down = downwards(group)
        for key, following in zip(down, [*down[1:], (0, 0)], strict=True):
            got = inputs.take(key)
            inputs.bring(following)  # where none follows: a stage whose input nobody keeps
            assert torch.equal(got, hidden_of(key, step, shape_of(key), dtype)), (step, key)


@pytest.mark.parametrize("groups", [LAYER_MAJOR, MICRO_BATCH_MAJOR], ids=["layer_major", "micro_batch_major"])
def test_layer_inputs_come_back_as_they_were_kept_step_after_step(inputs: LayerInputs, groups: Groups) -> None:
    for step in range(1, 5):
        up_and_down(inputs, groups, step)


def test_layer_inputs_of_a_smaller_last_micro_batch_keep_their_shape(inputs: LayerInputs) -> None:
    for step in (1, 2):
        up_and_down(inputs, LAYER_MAJOR, step, lambda key: SHAPE if key[1] < MICRO - 1 else (1, 63, 33))


def test_layer_inputs_of_another_size_dtype_and_number_each_step_come_back(inputs: LayerInputs) -> None:
    """As after a smaller micro-batch, or longer sequences."""
    up_and_down(inputs, LAYER_MAJOR, 1)
    up_and_down(inputs, [[(stage, m) for stage in range(1, LAYERS + 1) for m in range(6)]], 2, lambda _: (1, 63, 33))
    up_and_down(inputs, LAYER_MAJOR, 3, lambda _: (2, 80, 33))
    up_and_down(inputs, MICRO_BATCH_MAJOR, 4, dtype=torch.bfloat16)
    up_and_down(inputs, LAYER_MAJOR, 5)


@pytest.mark.parametrize("taken", [0, 4, LAYERS * MICRO])
def test_layer_inputs_of_a_step_that_was_given_up_are_dropped(
    inputs: LayerInputs, backend: Backend, taken: int
) -> None:
    inputs.begin(sequences(LAYER_MAJOR))
    for key in LAYER_MAJOR[0]:
        inputs.keep(key, hidden_of(key, 1))
    down = downwards(LAYER_MAJOR[0])
    for key in down[:taken]:
        inputs.take(key)
    if taken < len(down):
        inputs.bring(down[taken])
    backend.synchronize()  # what `abandon` does
    up_and_down(inputs, LAYER_MAJOR, 2)


def test_layer_inputs_given_up_on_the_way_up_leave_nothing_behind(inputs: LayerInputs, backend: Backend) -> None:
    inputs.begin(sequences(LAYER_MAJOR))
    for key in LAYER_MAJOR[0][:4]:
        inputs.keep(key, hidden_of(key, 1))
    backend.synchronize()
    up_and_down(inputs, LAYER_MAJOR, 2)


def test_layer_inputs_brought_twice_or_not_at_all_are_the_same(inputs: LayerInputs) -> None:
    inputs.begin([{(1, 0): 2, (2, 0): 2}])
    for key in ((1, 0), (2, 0)):
        inputs.keep(key, hidden_of(key, 1))
    inputs.bring((2, 0))
    inputs.bring((2, 0))
    assert torch.equal(inputs.take((2, 0)), hidden_of((2, 0), 1))
    assert torch.equal(inputs.take((1, 0)), hidden_of((1, 0), 1))


def test_held_inputs_are_the_tensors_themselves_and_take_no_host_memory() -> None:
    made, hidden = HeldInputs(), torch.zeros(3)
    made.begin([{(1, 0): 3}])
    made.keep((1, 0), hidden)
    assert made.take((1, 0)) is hidden
    assert made.num_bytes == 0


@pytest.mark.parametrize(
    ("limit", "num_bytes"),
    [
        (1 << 30, PAGES * PAGE_BYTES),
        (PAGES * PAGE_BYTES, PAGES * PAGE_BYTES),
        (PAGES * PAGE_BYTES - 1, 20 * FRAME_BYTES),
        (6 * FRAME_BYTES - 1, 5 * FRAME_BYTES),
        (0, FEWEST_FRAMES * FRAME_BYTES),
    ],
)
def test_host_inputs_take_no_more_memory_than_their_limit_or_the_fewest_frames(
    limit: int, num_bytes: int, tmp_path: Path
) -> None:
    made = host_inputs(CpuBackend(), tmp_path, limit)
    assert made.num_bytes == room(limit).host_bytes == num_bytes
    up_and_down(made, LAYER_MAJOR, 1)
    assert made.num_bytes == num_bytes
    made.close()


def test_host_inputs_keep_their_memory_whatever_the_micro_batch(tmp_path: Path) -> None:
    planes: list[Plane] = []

    def new_plane(asked: InputRoom) -> Plane:
        planes.append(factory(tmp_path).new_input_plane(asked))
        return planes[-1]

    made = HostInputs(CpuBackend(), CHUNK, room(1 << 30), new_plane)
    up_and_down(made, LAYER_MAJOR, 1)
    up_and_down(made, [[(stage, m) for stage in range(1, LAYERS + 1) for m in range(6)]], 2, lambda _: (1, 63, 33))
    up_and_down(made, MICRO_BATCH_MAJOR, 3)
    assert len(planes) == 1


def test_host_inputs_that_outgrow_the_host_are_refused_where_no_disk_may_help(tmp_path: Path) -> None:
    exactly = dataclasses.replace(room(PAGES * PAGE_BYTES), may_page=False)
    made = HostInputs(CpuBackend(), CHUNK, exactly, factory(tmp_path).new_input_plane)
    up_and_down(made, LAYER_MAJOR, 1)
    with pytest.raises(TierExhausted, match=r"offload\.host_memory"):
        up_and_down(made, LAYER_MAJOR, 2, lambda _: (2, 64, 33))


def test_host_inputs_on_a_disk_that_fails_raise_its_error(tmp_path: Path) -> None:
    made = host_inputs(CpuBackend(), tmp_path, 0, FaultyDisk(Fault(FaultKind.WRITE_ERROR)))
    with pytest.raises(DiskFailed):
        up_and_down(made, LAYER_MAJOR, 1)
    made.close()


@pytest.mark.parametrize("policy", list(Policy))
def test_host_inputs_only_those_that_did_not_fit_go_to_disk_and_come_back_once(policy: Policy, tmp_path: Path) -> None:
    """What is taken from RAM is never written: it is used up."""
    disk = FaultyDisk()
    made = host_inputs(CpuBackend(), tmp_path, 0, disk, policy)
    groups: Groups = [[(stage, 0) for stage in range(1, LAYERS * MICRO + 1)]]
    for step in range(1, 4):
        up_and_down(made, groups, step, lambda _: (1, 63, 33))
        beyond = list(range(LAYERS * MICRO - FEWEST_FRAMES))
        assert sorted(page for operation, page in disk.calls if operation == "write") == beyond
        assert sorted(page for operation, page in disk.calls if operation == "read") == beyond
        disk.calls.clear()
    made.close()
