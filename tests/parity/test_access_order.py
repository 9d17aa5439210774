"""The schedule, made before training, against what a run really asks for."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.engine.memory.disk_io import SECTOR
from horizon_app.engine.memory.disk_queue import DiskEvent
from horizon_app.engine.memory.paged_plane import PagedPlane
from horizon_app.engine.memory.planes import DiskState, Opening, PlaneName
from horizon_app.engine.streaming.backends.cpu import CpuBackend
from horizon_app.engine.streaming.schedule import Schedule, Shape
from horizon_app.engine.training.engine import Engine
from tests.support.chaos import ChaosBackend
from tests.support.engines import least_host_memory, running, train
from tests.support.streaming_rig import CountingBackend
from tests.support.tiny_models import CONFIGS, TOKENS, RandomBatches, write_checkpoint

SOURCE = RandomBatches()
LOGIT_ROWS = 9  # tokens whose logits fit the budget: several chunks of the loss a micro-batch


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: write_checkpoint(family, tmp_path_factory.mktemp(family)) for family in CONFIGS}


def record_accesses(engine: Engine) -> list[int]:
    """What the streamer is asked for from now on, the same block twice in a row counted once."""
    streamer, asked = engine._m.streamer, list[int]()
    real = streamer.access

    def access(block: int) -> torch.Tensor:
        if not asked or asked[-1] != block:
            asked.append(block)
        return real(block)

    streamer.access = access
    return asked


def current_schedule(engine: Engine) -> tuple[Shape, Schedule]:
    made = engine._m.step._schedule
    assert made is not None
    return made


@pytest.mark.parametrize("order", ["layer_major", "micro_batch_major"])
@pytest.mark.parametrize("chunked", [False, True], ids=["one-chunk", "chunks"])
@pytest.mark.parametrize("micro_batch", [4, 1], ids=["accumulate1", "accumulate4"])
@pytest.mark.parametrize("kept", [0, 1, None], ids=["always", "one-kept", "never"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_schedule_is_exactly_what_an_optimizer_step_asks_for(
    family: str, kept: int | None, micro_batch: int, chunked: bool, order: str, checkpoints: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if chunked:
        monkeypatch.setattr(
            "horizon_app.engine.training.sizes.chunk_tokens", lambda vocabulary, item, budget: LOGIT_ROWS
        )
    offload = {"param_block_size": "16KiB", "max_gpu_blocks": 5}
    training = {"global_batch_size": SOURCE.sequences, "micro_batch_size": micro_batch}
    backend = CountingBackend(ChaosBackend(3))
    compute = {"recompute": "never" if kept is None else "auto", "schedule": order}
    with running(
        checkpoints[family], backend=backend, offload=offload, training=training, compute=compute,
        overrides={"kept_layers": kept},
    ) as engine:  # fmt: skip
        asked = record_accesses(engine)
        bytes_in = bytes_out = 0
        for step in (1, 2):
            asked.clear()
            [metrics] = train(engine, SOURCE, step)
            shape, schedule = current_schedule(engine)
            assert tuple(asked) == schedule.accesses
            assert len(shape.head_chunks) == SOURCE.sequences // micro_batch
            assert (max(shape.head_chunks) > 1) == chunked
            counters = engine._m.counters
            assert counters.hits + counters.late + counters.misses == counters.accesses == len(schedule.accesses)
            bytes_in, bytes_out = bytes_in + counters.bytes_in, bytes_out + counters.bytes_out
            assert (backend.bytes_in, backend.bytes_out) == (bytes_in, bytes_out)
            rates = [metrics[f"prefetch/{kind}_rate"] for kind in ("hit", "late", "miss")]
            assert sum(rates) == pytest.approx(1.0)
            assert metrics["accumulation/steps"] == len(shape.head_chunks)
            assert metrics["transfer/host_to_device"] * metrics["time/step"] == pytest.approx(counters.bytes_in)


def test_schedule_no_access_moves_a_block_twice_in_an_arena_that_holds_all(checkpoints: dict[str, Path]) -> None:
    offload = {"param_block_size": "16KiB", "max_gpu_blocks": 1000}
    with running(checkpoints["llama"], offload=offload) as engine:
        train(engine, SOURCE, 1)
        assert engine._m.counters.fetches == len(set(current_schedule(engine)[1].accesses))


def test_schedule_on_weights_that_are_shared_is_asked_for_and_nothing_is_copied(checkpoints: dict[str, Path]) -> None:
    backend = CountingBackend(ChaosBackend(3))
    with running(checkpoints["llama"], backend=backend, offload={"param_block_size": "16KiB"}) as engine:
        assert engine.sizes.shares_host
        asked = record_accesses(engine)
        [metrics] = train(engine, SOURCE, 1)
        assert tuple(asked) == current_schedule(engine)[1].accesses
        assert (backend.bytes_in, metrics["transfer/host_to_device"]) == (0, 0.0)
        assert metrics["prefetch/hit_rate"] == 1.0


def test_gradients_of_tokens_that_no_chunk_holds_cost_no_product(checkpoints: dict[str, Path]) -> None:
    """The head reads its blocks for trained tokens alone: rows without a label are left out before the product."""
    with running(checkpoints["llama"], training={"micro_batch_size": 4}) as engine:
        rows: list[int] = []
        real = engine._m.step._p.model.logits

        def logits(hidden: torch.Tensor) -> torch.Tensor:
            rows.append(hidden.shape[0])
            return real(hidden)

        engine._m.step._p.model.logits = logits
        train(engine, SOURCE, 1)
        batch = SOURCE.batch(1)
        assert sum(rows) == batch.num_trained_tokens < SOURCE.sequences * TOKENS


@pytest.mark.parametrize("compute", ["fp32", "bf16"])
@pytest.mark.parametrize("order", ["layer_major", "micro_batch_major"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_host_order_goes_round_once_an_optimizer_step(
    family: str, order: str, compute: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    """A plane whose order ran ahead or fell behind would read what nobody needs. Copies come as they are asked for."""
    offload: dict[str, Any] = {"param_block_size": "16KiB", "max_gpu_blocks": 5}
    words: dict[str, Any] = {"precision": {"compute": compute}, "compute": {"schedule": order}}
    words["training"] = {"micro_batch_size": 2}
    offload["host_memory"] = least_host_memory(checkpoints[family], offload=offload, **words)
    steps = 3
    with running(checkpoints[family], backend=CpuBackend(), disk_dir=tmp_path, offload=offload, **words) as engine:
        train(engine, SOURCE, steps)
        blocks = len(engine._partition.blocks)
        for name, plane in engine._pool.planes.items():
            assert isinstance(plane, PagedPlane), name
            visits, position = plane._order.visits, plane._order.position
            reads = name is PlaneName.WEIGHT or (name is PlaneName.MASTER and compute == "fp32")
            if reads:  # the updates of the last step belong to the next round
                assert steps * len(visits) < position < (steps + 1) * len(visits), name
            else:
                assert position == steps * len(visits) == steps * blocks, name


@pytest.mark.parametrize("compute", ["fp32", "bf16"])
@pytest.mark.parametrize("block_bytes", [4 * SECTOR, 4 * SECTOR + 64])
def test_weights_that_only_the_disk_has_are_read_into_the_arena_itself(
    block_bytes: int, compute: str, checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the arena is RAM: no frame of the host tier is taken for what a product reads."""
    straight: list[int] = []
    opened: list[DiskState] = []
    read_straight, open_page = PagedPlane.read_straight, PagedPlane.opened

    def counted(plane: PagedPlane, page: int, memory: torch.Tensor) -> DiskEvent | None:
        event = read_straight(plane, page, memory)
        if event is not None:
            straight.append(page)
        return event

    def watched(plane: PagedPlane, page: int, opening: Opening) -> AbstractContextManager[torch.Tensor]:
        if opening is Opening.READ and plane is weights:
            opened.append(plane.on_disk(page))
        return open_page(plane, page, opening)

    offload: dict[str, Any] = {"param_block_size": block_bytes, "max_gpu_blocks": 5}
    words: dict[str, Any] = {"precision": {"compute": compute}}
    offload["host_memory"] = least_host_memory(checkpoints["llama"], offload=offload, **words)
    backend = CpuBackend()
    with running(checkpoints["llama"], backend=backend, disk_dir=tmp_path, offload=offload, **words) as engine:
        weights = engine._pool.planes[PlaneName.WEIGHT]
        monkeypatch.setattr(PagedPlane, "read_straight", counted)
        monkeypatch.setattr(PagedPlane, "opened", watched)
        train(engine, SOURCE, 2)
    assert opened, "what is in a frame is copied from there"
    if block_bytes % SECTOR:
        assert not straight, "the disk moves whole sectors only"
        return
    assert straight
    assert DiskState.ON_DISK not in opened
