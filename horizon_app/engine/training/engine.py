"""The engine: one model on one device, built from a config, trained step by step."""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from horizon_app.contracts.events import PeakUse
from horizon_app.contracts.residency import BlockFacts, BlockLayout, FrameHeader, StageLayout, encode_frame
from horizon_app.contracts.run_spec import Init
from horizon_app.data.batches import BatchSource
from horizon_app.engine.memory.arena import Arena
from horizon_app.engine.memory.block_table import BlockTable
from horizon_app.engine.memory.geometry import Parameter, Partition, Use
from horizon_app.engine.memory.host_pool import HostPool
from horizon_app.engine.model.discovery import Discovered, build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.random_init import initialise
from horizon_app.engine.model.staged import StagedModel
from horizon_app.engine.model.weights import copy_companions, read_weights, refuse_quantised, write_weights
from horizon_app.engine.optim.adamw import AdamWConfig, HostAdamW
from horizon_app.engine.optim.lr_schedule import LearningRate
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.streaming.access import DeviceAccess, SegmentDoor, Workspace
from horizon_app.engine.streaming.backends.choose import make_backend
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.streaming.gradients import GradientGather
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.streaming.schedule import OrderRecorder, StageOrder
from horizon_app.engine.streaming.streamer import Streamer
from horizon_app.engine.telemetry.counters import Counters
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.loss import chunk_tokens
from horizon_app.engine.training.sizes import Sizes, decide_sizes
from horizon_app.engine.training.step import OptimizerStep, StepParts, StepResult

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that `ru_maxrss` counts in."""

ArenaHook = Callable[[torch.Tensor], None]


class Engine:
    """Holds one model's tiers and trains it. Not thread-safe: one thread owns it."""

    def __init__(
        self, config: EngineConfig, sink: TelemetrySink, *, backend: Backend | None = None,
        on_slot_release: ArenaHook | None = None,
    ) -> None:  # fmt: skip
        """Build everything and load the weights. Raises EngineError subclasses; tests pass their own backend."""
        self._config, self._sink = config, sink
        self._hf_config = load_config(config.model_dir)
        found = discover(build_meta(self._hf_config))
        self._partition = partition(
            stage_parameters(found), block_bytes=config.block_bytes, element_bytes=config.compute_dtype.itemsize
        )
        text_config = self._hf_config.get_text_config()
        self.sizes: Sizes = decide_sizes(config, self._partition, text_config)
        self._aliases = found.aliases
        self._prefix = found.causal.base_model_prefix
        self._backend = backend or make_backend(config.device)
        self._pool = HostPool(self._partition, config.compute_dtype, pinned=self._backend.pins_host_memory)
        self._load(found)
        self._build(found, text_config.vocab_size, on_slot_release)
        self.step_count = 0
        self.last_metrics: dict[str, float] = {}
        self._trained_tokens = 0
        sink.layout(self.layout())

    # -- what it tells

    def layout(self) -> BlockLayout:
        """Every block, in order: what a residency frame's positions mean."""
        names: list[list[str]] = [[] for _ in self._partition.blocks]
        for segment in self._partition.segments:
            name = _short_name(self._partition.parameters[segment.parameter], self._partition)
            if name not in names[segment.block]:
                names[segment.block].append(name)
        itemsize = self._config.compute_dtype.itemsize
        stages = [self._partition.blocks_of_stage(s) for s in range(len(self._partition.stage_names))]
        first = 0
        laid: list[StageLayout] = []
        for name, blocks in zip(self._partition.stage_names, stages, strict=True):
            laid.append(StageLayout(name=name, first_block=first, num_blocks=len(blocks)))
            first += len(blocks)
        return BlockLayout(
            block_bytes=self._config.block_bytes, max_device_blocks=self.sizes.num_slots,
            device=str(self._config.device), compute_dtype=str(self._config.compute_dtype).removeprefix("torch."),
            parameters=sum(p.numel for p in self._partition.parameters), stages=laid,
            blocks=[
                BlockFacts(stage=b.stage, parameters=names[b.index], elements=b.numel, bytes=b.numel * itemsize)
                for b in self._partition.blocks
            ],
        )  # fmt: skip

    @property
    def plan_facts(self) -> dict[str, Any]:
        """What was decided, and the bytes per tier."""
        sizes, config = self.sizes, self._config
        return {
            "device": str(config.device),
            "compute_dtype": str(config.compute_dtype).removeprefix("torch."),
            "parameters": sum(p.numel for p in self._partition.parameters),
            "param_block_size": config.block_bytes,
            "blocks": len(self._partition.blocks),
            "max_gpu_blocks": sizes.num_slots,
            "prefetch_window": config.window,
            "policy": config.policy.value,
            "micro_batch_size": sizes.micro_batch,
            "accumulation_steps": -(-config.global_batch // sizes.micro_batch),
            "recompute": sizes.recompute,
            "device_bytes": sizes.arena_bytes,
            "host_bytes": sizes.host_bytes,
            "activation_bytes": sizes.activation_bytes,
        }

    def peaks(self) -> PeakUse:
        """The highest use of each tier so far."""
        used = self._arena.most_used
        return PeakUse(
            device_blocks=used, device_bytes=used * self._arena.slot_bytes, host_bytes=self._pool.num_bytes,
            resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT,
        )  # fmt: skip

    def parameter(self, name: str) -> torch.Tensor:
        """The fp32 master of a parameter, by its name in the model. Shape: the parameter's. Raises KeyError."""
        facts = {p.name: p for p in self._partition.parameters}[name]
        return self._pool.parameter_view(self._pool.master, facts)

    @property
    def parameter_names(self) -> list[str]:
        """Names of all trained parameters."""
        return [p.name for p in self._partition.parameters]

    # -- what it does

    def train(
        self, source: BatchSource, total_steps: int, should_stop: Callable[[], bool], on_step: Callable[[int], None]
    ) -> int:
        """Run optimizer steps until `total_steps` are done or `should_stop()`; answers how many are done.

        `on_step(step)` is called after each, with the model at rest. Raises EngineError subclasses.
        """
        config = self._config
        rate = LearningRate(
            peak=config.learning_rate, schedule=config.lr_schedule, warmup=config.warmup, total_steps=total_steps
        )
        torch.manual_seed(config.seed)
        for batch in source.batches(self.step_count + 1):
            if self.step_count >= total_steps or should_stop():
                break
            step = self.step_count + 1
            self._counters_reset()
            result = self._step.run(batch, step=step, learning_rate=rate.at(step))
            self.step_count = step
            self._report(step, rate.at(step), result)
            on_step(step)
        return self.step_count

    def save_model(self, folder: Path) -> int:
        """Write a Hugging Face checkpoint (weights, config, tokenizer) into `folder`; answers its bytes."""
        dtype = getattr(self._hf_config, "dtype", None) or torch.float32
        pool = self._pool

        def maker(parameter: Parameter) -> Callable[[], torch.Tensor]:
            return lambda: pool.parameter_view(pool.master, parameter).to(dtype).clone()

        tensors = [(self._aliases.get(p.name, p.name), p) for p in self._partition.parameters]
        sizes = {name: p.numel * dtype.itemsize for name, p in tensors}
        written = write_weights(folder, ((name, maker(p)) for name, p in tensors), sizes)
        return written + copy_companions(self._config.model_dir, folder)

    def close(self) -> None:
        """Stop threads and give memory back."""
        self._backend.close()
        self._pool.close()

    # -- building

    def _load(self, found: Discovered) -> None:
        targets = {p.name: (p, self._pool.parameter_view(self._pool.master, p)) for p in self._partition.parameters}
        if self._config.init is Init.RANDOM:
            initialise(found, targets.get, self._config.seed)
        else:
            refuse_quantised(self._hf_config)
            read_weights(
                self._config.model_dir, list(targets.values()), prefix=self._prefix, aliases=self._aliases
            )  # fmt: skip
        self._pool.refresh_weights()

    def _build(self, found: Discovered, vocabulary: int, on_slot_release: ArenaHook | None) -> None:
        config, part, pool = self._config, self._partition, self._pool
        door = SegmentDoor()
        model = StagedModel(found, part, door, device=config.device, compute_dtype=config.compute_dtype)
        orders, trained = self._record(model, door)
        for lookup in model.lookups:
            parameter = next(p for p in part.parameters if p.name == lookup.parameter)
            lookup.table = lambda parameter=parameter: pool.parameter_view(pool.weight, parameter)
        self._table = BlockTable(len(part.blocks))
        storage = self._backend.new_arena(self.sizes.num_slots, part.block_numel, config.compute_dtype)
        self._arena = Arena(storage, on_slot_release)
        self._counters = Counters()
        self._streamer = Streamer(
            partition=part, pool=pool, arena=self._arena, table=self._table, backend=self._backend,
            make_policy=lambda: make_policy(config.policy), window=config.window, counters=self._counters,
            on_access=self._show_residency,
        )  # fmt: skip
        self._gather = GradientGather(
            partition=part, pool=pool, arena=self._arena, table=self._table, backend=self._backend,
            streamer=self._streamer, num_slots=self.sizes.gradient_slots,
        )  # fmt: skip
        access = DeviceAccess(self._streamer, self._gather)
        door.target = access
        adamw = AdamWConfig(betas=config.betas, eps=config.eps, weight_decay=config.weight_decay)
        self._step = OptimizerStep(
            StepParts(
                partition=part, pool=pool, table=self._table, model=model, streamer=self._streamer, gather=self._gather,
                workspace=Workspace(part, access, self._gather, config.compute_dtype),
                optimizer=HostAdamW(part, pool, adamw, trained), orders=orders, micro_batch=self.sizes.micro_batch,
                chunk_tokens=chunk_tokens(vocabulary, config.compute_dtype.itemsize, config.logits_budget_bytes),
                recompute=self.sizes.recompute, max_grad_norm=config.max_grad_norm,
            )
        )  # fmt: skip
        for stage in range(len(orders)):
            self._step.refresh_resident(stage)

    def _record(self, model: StagedModel, door: SegmentDoor) -> tuple[tuple[StageOrder, ...], frozenset[int]]:
        """Learn the order of accesses, and which parameters get gradients at all."""
        recorder = OrderRecorder(self._partition, self._config.device, self._config.compute_dtype)
        door.target = recorder
        with torch.enable_grad():
            output = model.record()
        recorder.recording_backward = True
        output.backward()
        trained = set(recorder.touched)
        for parameter in self._partition.parameters:
            leaf = model.resident.get(parameter.name)
            if leaf is not None and leaf.grad is not None:
                leaf.grad = None
                trained.add(parameter.index)
            elif parameter.use is Use.LOOKUP or (parameter.use is Use.GATHER and leaf is None):
                trained.add(parameter.index)
        unused = [p.name for p in self._partition.parameters if p.index not in trained]
        if unused:
            self._sink.log(
                "warning", f"{len(unused)} parameters take no part in the loss and stay as they are: {unused[:5]}"
            )
        return recorder.orders(), frozenset(trained)

    # -- telling

    def _counters_reset(self) -> None:
        counters = self._counters
        counters.accesses = counters.hits = counters.late = counters.misses = counters.fetches = 0
        counters.bytes_in = counters.bytes_out = 0
        counters.stall_s = 0.0

    def _report(self, step: int, learning_rate: float, result: StepResult) -> None:
        counters = self._counters
        self._trained_tokens += result.trained_tokens
        accesses = max(1, counters.accesses)
        capacity = self.sizes.num_slots - self.sizes.gradient_slots
        self.last_metrics = {
            "train/loss": result.loss,
            "train/grad_norm": result.grad_norm,
            "train/learning_rate": learning_rate,
            "train/tokens": float(self._trained_tokens),
            "throughput/tokens_per_second": result.tokens / result.seconds,
            "time/step": result.seconds,
            "time/stall": counters.stall_s,
            "prefetch/hit_rate": counters.hits / accesses,
            "prefetch/late_rate": counters.late / accesses,
            "prefetch/miss_rate": counters.misses / accesses,
            "prefetch/optimal_hit_rate": result.schedule.optimal_hit_rate(capacity),
            "tier/device_bytes": float(self._arena.most_used_lately() * self._arena.slot_bytes),
            "tier/host_bytes": float(self._pool.num_bytes),
            "transfer/host_to_device": counters.bytes_in / result.seconds,
            "transfer/device_to_host": counters.bytes_out / result.seconds,
            "accumulation/steps": float(result.micro_batches),
            "accumulation/micro_batch_size": float(self.sizes.micro_batch),
        }
        self._sink.metrics(step, self.last_metrics)

    def _show_residency(self) -> None:
        if not self._sink.wants_residency():
            return
        self._streamer.poll_arrivals()
        self._gather.poll()
        index = self._streamer.step_index
        step = self._streamer.schedule.steps[index]
        header = FrameHeader(
            time_us=time.time_ns() // 1000, step=self.step_count + 1, compute_step=index, stage=step.stage,
            direction=step.direction, window=self._streamer.window, num_blocks=self._table.num_blocks,
            slots_used=self._arena.num_used,
        )  # fmt: skip
        self._sink.residency(encode_frame(header, self._table.maps()))


def _short_name(parameter: Parameter, part: Partition) -> str:
    """A parameter's name inside its stage, without the `.weight` that nearly all share."""
    stage = part.stage_names[parameter.stage]
    name = parameter.name
    if stage.startswith("L"):
        marker = f".{stage[1:]}."
        name = name[name.index(marker) + len(marker) :]
    return name.removesuffix(".weight")
