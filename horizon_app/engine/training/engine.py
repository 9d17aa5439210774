"""The engine: one model on one device, built from a config, trained step by step."""

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from horizon_app.contracts.events import MEMORY_RAN_OUT, PeakUse
from horizon_app.contracts.knobs import AskedChange
from horizon_app.contracts.residency import BlockLayout
from horizon_app.contracts.run_spec import Recompute
from horizon_app.data.batches import Batch, BatchSource
from horizon_app.engine.errors import EngineError
from horizon_app.engine.hardware.memory_errors import is_out_of_memory
from horizon_app.engine.hardware.probe import anonymous_bytes
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem
from horizon_app.engine.model.companions import read_companions
from horizon_app.engine.model.discovery import stored_buffers
from horizon_app.engine.optim.accumulation import Accumulation
from horizon_app.engine.optim.lr_schedule import LearningRate
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.assemble import ArenaHook, Hooks, assemble
from horizon_app.engine.training.checkpoint import EngineState, Snapshot, read_state, room_for
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.evaluation import Evaluator
from horizon_app.engine.training.feed import BatchFeed, FeedPosition
from horizon_app.engine.training.generation import Generation, num_positions
from horizon_app.engine.training.live_knobs import LiveKnobs
from horizon_app.engine.training.loading import LoadedModel, plan_model
from horizon_app.engine.training.plane_files import PlaneFiles
from horizon_app.engine.training.report import StepReport, block_layout, plan_facts
from horizon_app.engine.training.requests import Continuation, Evaluation, OnTokens, Sampling
from horizon_app.engine.training.step import StepResult

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that `ru_maxrss` counts in."""


class Engine:
    """Holds one model's tiers and trains it. Not thread-safe, but for `request`: one thread owns it."""

    def __init__(
        self, config: EngineConfig, sink: TelemetrySink, *, backend: Backend | None = None,
        on_slot_release: ArenaHook | None = None, disk_system: DiskSystem = OS_DISK,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """Build everything and load the weights. Raises EngineError subclasses; tests pass backend and disk.

        `should_stop` is asked between the pieces of the weights: BuildStopped once it says so.
        """
        self._config, self._sink = config, sink
        before = anonymous_bytes()
        plan = plan_model(config, trains=True)
        self._partition, self.sizes = plan.partition, plan.sizes
        self._process_bytes = (
            None if before is None else before + self.sizes.process_bytes(on_cpu=config.device.type == "cpu")
        )
        self._aliases = plan.found.aliases
        self._positions = num_positions(plan.hf_config)
        self.step_count = 0
        self._position = FeedPosition()
        self.last_metrics: dict[str, float] = {}
        with contextlib.ExitStack() as undo:
            self._loaded = LoadedModel(plan, backend=backend, disk_system=disk_system, should_stop=should_stop)
            undo.callback(self._loaded.close)
            self._pool, self._disk = self._loaded.pool, self._loaded.disk
            self._buffers = stored_buffers(plan.found.causal)
            self._m = assemble(
                plan, self._loaded, Hooks(on_slot_release=on_slot_release, on_access=self._show_residency)
            )
            undo.pop_all()
        self._accumulation = Accumulation(
            policy=config.accumulation, keep_global_batch=config.keep_global_batch, global_batch=config.global_batch,
            micro_batch=self.sizes.activations.micro_batch,
            adapts=config.micro_batch is None or not config.keep_global_batch,
        )  # fmt: skip
        self._report = StepReport(self._pool, self._disk, self._m)
        self._companions = read_companions(config.model_dir)
        self._planes = PlaneFiles(self._partition, self._pool, config.optimizer_state, should_stop)
        self._knobs = LiveKnobs(config, self.sizes, self._partition, self._m, sink)
        if self._m.unused:
            names = ", ".join(self._m.unused[:5])
            sink.log(
                "warning", f"{len(self._m.unused)} parameters take no part in the loss and stay as they are: {names}"
            )
        sink.layout(self.layout())

    # -- what it tells

    def layout(self) -> BlockLayout:
        """Every block, in order: what a residency frame's positions mean."""
        return block_layout(self._config, self.sizes, self._partition)

    @property
    def plan_facts(self) -> dict[str, Any]:
        """What was decided, and the bytes per tier."""
        return plan_facts(self._config, self.sizes, self._partition, self._disk, self._process_bytes)

    def peaks(self) -> PeakUse:
        """The highest use of each tier so far."""
        used = self._m.arena.most_used
        return PeakUse(
            device_blocks=used + (len(self._partition.blocks) if self.sizes.shares_host else 0),
            device_bytes=used * self._m.arena.slot_bytes,
            host_bytes=self._pool.num_bytes + self._m.inputs.num_bytes, disk_bytes=self._disk.file_bytes,
            resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT,
        )  # fmt: skip

    def parameter(self, name: str) -> torch.Tensor:
        """A copy of a parameter's fp32 master, by its name in the model. Raises KeyError, EngineError."""
        self._m.updates.flush()
        return self._pool.read(self._partition.by_name[name])

    @property
    def parameter_names(self) -> list[str]:
        """Names of all trained parameters."""
        return [p.name for p in self._partition.parameters]

    # -- what it does

    def request(self, change: AskedChange) -> None:
        """Change a knob before the next optimizer step; the sink is told what came of it. From any thread."""
        self._knobs.request(change)

    def train(
        self, source: BatchSource, total_steps: int, should_stop: Callable[[], bool], on_step: Callable[[int], None]
    ) -> int:
        """Run optimizer steps until `total_steps` are done or `should_stop()`; answers how many are done.

        `on_step(step)` is called after each. Raises EngineError subclasses.
        """
        config = self._config
        rate = LearningRate(
            peak=config.learning_rate, schedule=config.lr_schedule, warmup=config.warmup, total_steps=total_steps
        )
        if self.step_count == 0:
            torch.manual_seed(config.seed)
        feed = BatchFeed(source, self._position)
        while self.step_count < total_steps and not should_stop():
            step = self.step_count + 1
            self._knobs.apply(step)
            batch = feed.take(self._accumulation.sequences)
            if batch is None:
                break
            self._m.counters.reset()
            begin = time.perf_counter()
            result = self._attempt(batch, step, rate.at(step), should_stop)
            if result is None:
                break
            self.step_count, self._position = step, feed.position
            self._tell(result, rate.at(step), time.perf_counter() - begin)
            on_step(step)
        self._m.updates.flush()
        return self.step_count

    @property
    def checkpoint_bytes(self) -> int:
        """Room that a snapshot takes on disk: an upper estimate."""
        averages = self._config.gradient_ema > 0
        return room_for(self._partition.parameters, self._companions, averages=averages)

    def snapshot(self) -> Snapshot:
        """The state between two optimizer steps, to be written: the next update waits until it is released."""
        self._m.updates.flush()
        state = EngineState(
            step=self.step_count, trained_tokens=self._report.trained_tokens,
            trained_samples=self._report.trained_samples, position=self._position,
            accumulation=self._accumulation.state(), loss_scale=self._m.loss_scale.state(),
            averages=self._config.gradient_ema > 0,
        )  # fmt: skip
        names = {self._aliases.get(p.name, p.name): p for p in self._partition.parameters}
        snapshot = Snapshot(state, self._planes, names, self._buffers, self._companions, self._config.device)
        self._m.updates.hold(snapshot.released)
        return snapshot

    def restore(self, folder: Path) -> int:
        """Go on from the checkpoint in `folder`, whose weights are loaded already; answers its optimizer step.

        Raises CheckpointUnusable, EngineError.
        """
        state = read_state(folder, self._planes, self._config.device, averages=self._config.gradient_ema > 0)
        self.step_count, self._position = state.step, state.position
        self._report.trained_tokens, self._report.trained_samples = state.trained_tokens, state.trained_samples
        self._accumulation.load(state.accumulation)
        self._m.loss_scale.load(state.loss_scale)
        return state.step

    def evaluate(self, batches: Iterable[Batch]) -> Evaluation:
        """The loss of the weights as they are; training goes on after it as if nothing had been. Raises EngineError."""
        self._m.updates.flush()
        evaluator = Evaluator(self._m.stages, self._m.forward, self.sizes.chunk_tokens)
        return evaluator.run(batches, self._accumulation.micro_batch)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, on_tokens: OnTokens = lambda _: True
    ) -> list[Continuation]:
        """New tokens behind each prompt, from the weights as they are. Raises EngineError."""
        self._m.updates.flush()
        generation = Generation(self._m.stages, self._m.forward, positions=self._positions)
        return generation.run(prompts, sampling, on_tokens)

    def settle(self) -> None:
        """Return once no update of the weights waits. Changes no bit of what follows. Raises EngineError."""
        self._m.updates.flush()

    def close(self) -> None:
        """Stop threads and give memory back."""
        self._m.updates.close()
        self._loaded.close(once_still=self._m.inputs.close)

    # -- inside

    def _attempt(
        self, batch: Batch, step: int, learning_rate: float, should_stop: Callable[[], bool]
    ) -> StepResult | None:
        """The step, again with the same batch after an overflow or where memory ran out; None when asked to stop."""
        while True:
            shortage: str | None = None
            try:
                result = self._m.step.run(
                    batch, step=step, learning_rate=learning_rate, micro_batch=self._accumulation.micro_batch
                )
            except EngineError:
                raise
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                shortage = str(error).splitlines()[0] if str(error) else type(error).__name__
            else:
                if result is not None:
                    return result
                scale = self._m.loss_scale
                self._sink.note(
                    "skipped",
                    f"optimizer step {step} overflowed float16 and is done again at loss scale {scale.scale:g}",
                    {"step": step, "loss_scale": scale.scale, "skipped": scale.skipped},
                )  # fmt: skip
            if shortage is not None:  # out here nothing holds on to what the failed step had allocated
                self._take_less(step, shortage)
            if should_stop():
                return None

    def _take_less(self, step: int, shortage: str) -> None:
        old = self._accumulation.micro_batch
        self._m.step.abandon()
        if self._config.device.type == "cuda":
            torch.cuda.empty_cache()
        reason = f"{MEMORY_RAN_OUT} ({shortage})"
        if self._config.recompute is Recompute.AUTO and self._m.step.keep_nothing():
            self.sizes = self.sizes.recomputing_all()
            text = f"{reason}: from optimizer step {step} on, every layer is recomputed in the backward"
            self._sink.note("recompute", text, {"step": step, "reason": reason})
            return
        self._accumulation.out_of_memory()
        self._tell_micro_batch(step, old, reason)

    def _tell(self, result: StepResult, learning_rate: float, seconds: float) -> None:
        micro = self._accumulation.micro_batch
        self.last_metrics = self._report.metrics(
            result, learning_rate=learning_rate, micro_batch=micro, seconds=seconds
        )
        self._sink.metrics(self.step_count, self.last_metrics)
        self._knobs.after_step(seconds)
        share = self._free_share(micro)
        if self._accumulation.after_step(share):
            self._tell_micro_batch(self.step_count + 1, micro, f"{share:.0%} of the device's memory was free")

    def _tell_micro_batch(self, step: int, old: int, reason: str) -> None:
        new = self._accumulation
        self._sink.note(
            "micro_batch",
            f"{reason}: micro-batches of {new.micro_batch} sequences instead of {old}, {new.steps} of them a step",
            {"step": step, "old": old, "new": new.micro_batch, "steps": new.steps, "reason": reason},
        )

    def _free_share(self, micro_batch: int) -> float:
        if self._config.device.type != "cuda":
            return self.sizes.free_share(micro_batch)
        total = torch.cuda.get_device_properties(self._config.device).total_memory
        peak = torch.cuda.max_memory_allocated(self._config.device)
        torch.cuda.reset_peak_memory_stats(self._config.device)
        return 1.0 - peak / total

    def _show_residency(self) -> None:
        if self._sink.wants_residency():
            self._sink.residency(self._report.frame(self.step_count + 1))
