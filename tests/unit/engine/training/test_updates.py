"""Updates ahead of the next forward: their order, the gate that holds readers back, and what failures do."""

import threading
from collections.abc import Iterator

import pytest
import torch

from horizon_app.contracts.residency import MapId
from horizon_app.engine.errors import DiskFailed, EngineError
from horizon_app.engine.memory.block_table import BlockTable, Host
from horizon_app.engine.memory.geometry import Block, ParameterFacts, Partition, Use
from horizon_app.engine.optim.adamw import Update
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.training.updates import WeightUpdates

STAGES, BLOCKS_EACH = 5, 2
ORDER = [0, 4, 1, 2, 3]  # a tied head is read with the embedding
UPDATE = Update(step=1, learning_rate=0.1, factor=1.0)
DEADLINE_S = 30.0


def cut() -> Partition:
    stages = [
        (f"s{i}", [ParameterFacts(name=f"w{i}", shape=(BLOCKS_EACH, 16), use=Use.LINEAR, decay=True)])
        for i in range(STAGES)
    ]
    return partition(stages, block_bytes=64, element_bytes=4)


class NotedOptimizer:
    """Notes which blocks are updated with what; waits for a gate and fails where it is told to."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []  # block, step of the update
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.fails_at: int | None = None
        self.threads: set[str] = set()

    def update(self, block: Block, update: Update) -> None:
        assert self.may_go_on.wait(DEADLINE_S)
        if block.index == self.fails_at:
            raise DiskFailed(operation="read", page=block.index, reason="gone")
        self.threads.add(threading.current_thread().name)
        self.done.append((block.index, update.step))

    @property
    def stages(self) -> list[int]:
        return [block // BLOCKS_EACH for block, _ in self.done[::BLOCKS_EACH]]


@pytest.fixture
def optimizer() -> NotedOptimizer:
    return NotedOptimizer()


@pytest.fixture
def table() -> BlockTable:
    return BlockTable(STAGES * BLOCKS_EACH)


@pytest.fixture(params=[0, 1], ids=["inline", "threaded"])
def updates(request: pytest.FixtureRequest, optimizer: NotedOptimizer, table: BlockTable) -> Iterator[WeightUpdates]:
    made = WeightUpdates(cut(), optimizer, table, ORDER, threads=request.param)  # type: ignore[arg-type]
    yield made
    optimizer.may_go_on.set()
    made.close()


@pytest.fixture
def inline(optimizer: NotedOptimizer, table: BlockTable) -> WeightUpdates:
    return WeightUpdates(cut(), optimizer, table, ORDER, threads=0)  # type: ignore[arg-type]


@pytest.fixture
def threaded(optimizer: NotedOptimizer, table: BlockTable) -> Iterator[WeightUpdates]:
    made = WeightUpdates(cut(), optimizer, table, ORDER, threads=1)  # type: ignore[arg-type]
    yield made
    optimizer.may_go_on.set()
    made.close()


def test_updates_before_the_first_step_hold_nobody_back(updates: WeightUpdates, optimizer: NotedOptimizer) -> None:
    assert all(updates.is_open(stage) for stage in range(STAGES))
    updates.flush()
    assert optimizer.done == []


def test_updates_run_in_the_order_in_which_the_next_forward_needs_them(
    updates: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    updates.begin(UPDATE)
    updates.flush()
    assert optimizer.stages == ORDER
    assert optimizer.done == [(stage * BLOCKS_EACH + i, 1) for stage in ORDER for i in range(BLOCKS_EACH)]
    updates.flush()
    assert len(optimizer.done) == STAGES * BLOCKS_EACH, "each block once"


def test_updates_passed_stage_has_all_of_its_blocks_updated(
    updates: WeightUpdates, optimizer: NotedOptimizer, table: BlockTable
) -> None:
    for block in range(STAGES * BLOCKS_EACH):
        table.gradient_on_host(block)
    updates.begin(UPDATE)
    updates.pass_through(1)
    assert {(2, 1), (3, 1)} <= set(optimizer.done)
    updates.flush()
    assert table.maps()[MapId.HOST] == bytes([Host.READY] * STAGES * BLOCKS_EACH)


def test_updates_of_a_step_are_finished_before_those_of_the_next(
    updates: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    updates.begin(UPDATE)
    updates.begin(Update(step=2, learning_rate=0.1, factor=1.0))
    updates.flush()
    assert [step for _, step in optimizer.done] == [1] * STAGES * BLOCKS_EACH + [2] * STAGES * BLOCKS_EACH


def test_updates_inline_are_made_by_whoever_passes_and_no_further_than_needed(
    inline: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    inline.begin(UPDATE)
    assert optimizer.done == []
    inline.pass_through(0)
    assert optimizer.stages == [0]
    inline.pass_through(1)
    assert optimizer.stages == [0, 4, 1], "those before it in the order come first"
    inline.pass_through(0)
    assert optimizer.stages == [0, 4, 1]
    assert inline.is_open(2), "whoever looks ahead updates, too: the copy that follows needs it"
    assert optimizer.stages == [0, 4, 1, 2]
    assert optimizer.threads == {threading.current_thread().name}


def test_updates_threaded_stage_is_closed_until_its_own_update_has_ended(
    threaded: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    optimizer.may_go_on.clear()
    threaded.begin(UPDATE)
    assert not any(threaded.is_open(stage) for stage in range(STAGES))
    passed: list[int] = []
    reader = threading.Thread(target=lambda: (threaded.pass_through(3), passed.append(len(optimizer.done))))
    reader.start()
    optimizer.may_go_on.set()
    reader.join(DEADLINE_S)
    assert passed == [STAGES * BLOCKS_EACH], "stage 3 is the last of the order"
    assert all(threaded.is_open(stage) for stage in range(STAGES))
    assert optimizer.threads == {"horizon-optimizer"}


def test_updates_that_failed_are_told_to_everyone_who_passes_and_never_count_as_made(
    updates: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    optimizer.fails_at = 4 * BLOCKS_EACH + 1  # the second block of stage 4
    updates.begin(UPDATE)
    updates.pass_through(0)
    for _ in range(2):
        with pytest.raises(DiskFailed, match="page 9"):
            updates.pass_through(4)
    with pytest.raises(DiskFailed):
        updates.flush()
    with pytest.raises(DiskFailed):
        updates.begin(Update(step=2, learning_rate=0.1, factor=1.0))


def test_updates_threaded_stage_whose_update_failed_is_not_open(
    threaded: WeightUpdates, optimizer: NotedOptimizer
) -> None:
    optimizer.fails_at = 0
    threaded.begin(UPDATE)
    with pytest.raises(EngineError):
        threaded.flush()
    assert not threaded.is_open(0)


@pytest.mark.parametrize("threads", [1, 2])
def test_updates_threads_leave_those_of_products_alone(threads: int, table: BlockTable) -> None:
    torch.set_num_threads(3)
    inside: list[int] = []

    class Asking(NotedOptimizer):
        def update(self, block: Block, update: Update) -> None:
            inside.append(torch.get_num_threads())

    made = WeightUpdates(cut(), Asking(), table, ORDER, threads=threads)  # type: ignore[arg-type]
    try:
        made.begin(UPDATE)
        made.flush()
        assert set(inside) == {threads}
        assert torch.get_num_threads() == 3
    finally:
        made.close()
