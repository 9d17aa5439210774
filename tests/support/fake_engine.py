"""Data and an engine without torch: every step takes a set time, the loss falls by rule, a model is two small files."""

import hashlib
import json
import math
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from horizon_app.contracts.checkpoints import STATE, CheckpointFile
from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.events import KnobChanged, PeakUse
from horizon_app.contracts.knobs import AskedChange, Knob, KnobStatus, KnobValue
from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.residency import (
    BlockFacts,
    BlockLayout,
    Direction,
    FrameHeader,
    MapId,
    StageLayout,
    encode_frame,
)
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.data.batches import Batch, BatchSource
from horizon_app.data.errors import DataError
from horizon_app.engine.errors import EngineError
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.requests import Continuation, Ending, Evaluation, OnTokens, Sampling
from horizon_app.worker.order import DataPaths
from horizon_app.worker.parts import Builders, ShouldStop

NUM_BLOCKS = 10
NUM_SLOTS = 4


class FakeSource:
    """Batches of zeros."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        zeros = np.zeros((1, 8), dtype=np.int64)
        while True:
            yield Batch(input_ids=zeros, labels=zeros, position_ids=zeros, num_samples=1)


@dataclass
class FakeData:
    """Four sequences, so an epoch at a global batch of 2 has two steps."""

    num_samples: int = 5
    num_sequences: int = 4
    num_tokens: int = 32
    num_trained_tokens: int = 28
    skipped: int = 1
    warnings: list[str] = field(default_factory=lambda: ["1 sample has no answer"])
    fingerprint: str = "fa4e"
    num_eval_sequences: int = 0

    def source(self, global_batch_size: int) -> BatchSource:
        return FakeSource()

    def eval_batches(self, sequences: int) -> Iterator[Batch]:
        zeros = np.zeros((1, 8), dtype=np.int64)
        for _ in range(self.num_eval_sequences):
            yield Batch(input_ids=zeros, labels=zeros, position_ids=zeros, num_samples=1)

    def steps_of_epochs(self, epochs: float, global_batch_size: int) -> int:
        return max(1, math.ceil(epochs * self.num_sequences / global_batch_size))


class FakeWriter:
    """A token is a letter's number; 0 ends a text."""

    stop_ids = frozenset({0})

    def prompt(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def text(self, ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in ids)


class FakeEngine:
    """Calls `before_step(step)` and then the sink, once a step, as the real engine does."""

    def __init__(
        self, sink: TelemetrySink, before_step: Callable[[int], None], save: Callable[[Path], None] | None = None
    ) -> None:
        self._sink = sink
        self._before_step = before_step
        self._save = save or write_fake_model
        self._steps = 0
        self.evaluates = False
        self.closed = threading.Event()
        self._asked: queue.SimpleQueue[AskedChange] = queue.SimpleQueue()
        self.requests: list[tuple[str, KnobValue]] = []
        self.knobs: dict[Knob, KnobValue] = {
            Knob.PREFETCH_WINDOW: 3, Knob.MAX_GPU_BLOCKS: NUM_SLOTS, Knob.POLICY: "clock_pro",
        }  # fmt: skip
        self.plan_facts: Mapping[str, Any] = {"param_block_size": 4096, "max_gpu_blocks": NUM_SLOTS}

    def train(
        self, source: BatchSource, total_steps: int, should_stop: Callable[[], bool], on_step: Callable[[int], None]
    ) -> int:
        self._sink.layout(fake_layout())
        batches = source.batches(1)
        for step in range(self._steps + 1, total_steps + 1):
            if should_stop():
                break
            self._take_up(step)
            next(batches)
            self._before_step(step)
            if self._sink.wants_residency():
                self._sink.residency(fake_frame(step))
            self._sink.metrics(step, fake_metrics(step) | ({"eval/loss": float(step)} if self.evaluates else {}))
            self._steps = step
            on_step(step)
        return self._steps

    def request(self, change: AskedChange) -> None:
        self._asked.put(change)

    def _take_up(self, step: int) -> None:
        while not self._asked.empty():
            change = self._asked.get()
            self.requests.append((change.knob.value, change.value))
            old = self.knobs[change.knob]
            refused = change.knob is Knob.MAX_GPU_BLOCKS and change.value == 1
            if not refused:
                self.knobs[change.knob] = change.value
            self._sink.knob(
                KnobChanged(
                    number=change.number, knob=change.knob, old=old, new=change.value, step=step, who=change.who,
                    status=KnobStatus.REFUSED if refused else KnobStatus.HOLDS,
                    message="a step needs 2 slots at once; set it to 2 or more" if refused else "",
                )
            )  # fmt: skip

    def evaluate(self, batches: Iterable[Batch]) -> Evaluation:
        return Evaluation(loss=sum(1.0 for _ in batches) / (1 + self._steps), num_tokens=1)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, on_tokens: OnTokens = lambda _: True
    ) -> list[Continuation]:
        going_on = on_tokens([None for _ in prompts])
        ending = Ending.LENGTH if going_on else Ending.CANCELLED
        return [Continuation(tokens=(*prompt, self._steps), ending=ending) for prompt in prompts]

    def peaks(self) -> PeakUse:
        return PeakUse(device_blocks=NUM_SLOTS, device_bytes=NUM_SLOTS * 4096, host_bytes=NUM_BLOCKS * 4096 * 7)

    checkpoint_bytes = 66

    def snapshot(self) -> "FakeSnapshot":
        return FakeSnapshot(self._save, self._steps)

    def restore(self, folder: Path) -> int:
        self._steps = int((folder / STATE).read_text())
        return self._steps

    def settle(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed.set()


def write_fake_model(folder: Path) -> None:
    """The outside of a model, with 4 KiB of weights."""
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
    (folder / "tokenizer.json").write_text("{}")
    header = b'{"w":{"dtype":"F32","shape":[1024],"data_offsets":[0,4096]}}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4096))


def save_that_hangs(folder: Path) -> None:
    """Stops in the middle of step 6, once."""
    write_fake_model(folder)
    hung = folder.parent.parent / "hung"
    if folder.name == ".6.partial" and not hung.exists():
        hung.touch()
        (folder / "half").write_bytes(bytes(100))
        threading.Event().wait()


@dataclass
class FakeSnapshot:
    """Writes what `save` writes, and the step."""

    save: Callable[[Path], None]
    step: int
    num_bytes: int = 66
    nonfinite: dict[str, int] = field(default_factory=dict)
    released: bool = False

    def write(self, folder: Path) -> "FakeSnapshot":
        self.save(folder)
        (folder / STATE).write_text(str(self.step))
        self.files = {path.name: _file(path) for path in folder.iterdir()}
        return self

    def wait(self) -> None:
        """Training goes on at once."""

    def release(self) -> None:
        self.released = True


def _file(path: Path) -> CheckpointFile:
    content = path.read_bytes()
    return CheckpointFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def fake_metrics(step: int) -> dict[str, float]:
    """The numbers of one step: a loss that falls, and a gradient norm that is infinite once."""
    return {
        "train/loss": 4.0 / step,
        "train/grad_norm": float("inf") if step == 1 else 1.0,
        "train/learning_rate": 1e-3,
        "train/tokens": 28.0 * step,
        "throughput/tokens_per_second": 2800.0,
        "time/step": 0.01,
        "prefetch/hit_rate": 0.75,
        "prefetch/optimal_hit_rate": 0.5,
    }


def fake_layout() -> BlockLayout:
    """One stage of ten blocks."""
    blocks = [BlockFacts(stage=0, parameters=["weight"], elements=1024, bytes=4096) for _ in range(NUM_BLOCKS)]
    return BlockLayout(
        block_bytes=4096, max_device_blocks=NUM_SLOTS, device="cpu", compute_dtype="float32",
        parameters=1024 * NUM_BLOCKS, blocks=blocks,
        stages=[StageLayout(name="L0", first_block=0, num_blocks=NUM_BLOCKS)],
    )  # fmt: skip


def fake_frame(step: int) -> bytes:
    """A residency frame in which one block after the other is in use."""
    states = bytes(3 if block == step % NUM_BLOCKS else 0 for block in range(NUM_BLOCKS))
    header = FrameHeader(
        time_us=time.time_ns() // 1000, step=step, compute_step=0, stage=0, direction=Direction.FORWARD, window=3,
        num_blocks=NUM_BLOCKS, slots_used=1,
    )  # fmt: skip
    return encode_frame(header, {MapId.DEVICE_WEIGHT: states, MapId.DEVICE_GRAD: states, MapId.HOST: states})


def fake_data(spec: DataSpec, paths: DataPaths, tokenizer_dir: Path, should_stop: ShouldStop) -> FakeData:
    """Four sequences, or what bad data raises where the file is called broken.txt."""
    if any(path.name == "broken.txt" for path in paths.train):
        problem = FieldProblem(field="data.path", message="not UTF-8 at byte 17", file="broken.txt", line=3)
        raise DataError([problem])
    return FakeData()


def fake_builders(
    before_step: Callable[[int], None] = lambda step: None, save: Callable[[Path], None] | None = None
) -> Builders:
    """Builders whose engine calls `before_step`; a model folder called broken can't be built."""

    def build(
        spec: RunSpec, model_dir: Path, disk_dir: Path, sink: TelemetrySink, should_stop: ShouldStop
    ) -> FakeEngine:
        if model_dir.name == "broken":
            raise EngineError("the model in broken has 3 layers of 0 parameters")
        engine = FakeEngine(sink, before_step, save_that_hangs if "the save of step 6 hangs" in spec.notes else save)
        engine.evaluates = "the eval loss rises" in spec.notes
        return engine

    return Builders(data=fake_data, engine=build, writer=lambda spec, folder: FakeWriter())


def timed_builders() -> Builders:
    """Builders for whole processes: a step takes HORIZON_FAKE_STEP_S seconds."""
    step_s = float(os.environ.get("HORIZON_FAKE_STEP_S", "0.01"))
    return fake_builders(before_step=lambda step: time.sleep(step_s))
