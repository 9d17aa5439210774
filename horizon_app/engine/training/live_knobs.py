"""Knobs that change while a run runs: asked for at any time, from any thread; taken up between two optimizer steps."""

import threading
from dataclasses import dataclass

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.hardware.memory_errors import is_out_of_memory
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.assemble import Machinery
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.sizes import Sizes, cap_slots, gradient_slots
from horizon_app.engine.training.window import AutoWindow


@dataclass(slots=True)
class _Asked:
    window: int | None = None
    auto_window: bool = False
    max_blocks: int | None = None
    policy: Policy | None = None


class LiveKnobs:
    """Holds what was asked for, and the window that adjusts itself."""

    def __init__(
        self, config: EngineConfig, sizes: Sizes, partition: Partition, machinery: Machinery, sink: TelemetrySink
    ) -> None:
        self._config, self._shares_host, self._partition = config, sizes.shares_host, partition
        self._m, self._sink = machinery, sink
        self._policy = config.policy
        self._auto = AutoWindow(machinery.streamer.window) if config.window is None else None
        self._asked = _Asked()
        self._lock = threading.Lock()

    def request(self, *, window: int | None, auto_window: bool, max_blocks: int | None, policy: Policy | None) -> None:
        """Note what should change; later requests win. Raises ArenaTooSmall."""
        if max_blocks is not None:
            cap_slots(max_blocks, self._partition)
        with self._lock:
            if window is not None or auto_window:
                self._asked.window, self._asked.auto_window = window, auto_window
            if max_blocks is not None:
                self._asked.max_blocks = max_blocks
            if policy is not None:
                self._asked.policy = policy

    def apply(self, step: int) -> None:
        """Take up what was asked for; optimizer step `step` is the first with it."""
        with self._lock:
            asked, self._asked = self._asked, _Asked()
        streamer = self._m.streamer
        if asked.window is not None or asked.auto_window:
            old = "auto" if self._auto else streamer.window
            self._auto = AutoWindow(streamer.window) if asked.auto_window else None
            if asked.window is not None:
                streamer.window = asked.window
            self._changed("prefetch_window", old, "auto" if self._auto else streamer.window, step)
        if asked.policy is not None and asked.policy is not self._policy:
            streamer.use_policy(make_policy(asked.policy, self._m.arena.num_slots))
            old_policy, self._policy = self._policy, asked.policy
            self._changed("policy", old_policy.value, asked.policy.value, step)
        if asked.max_blocks is not None:
            self._resize(asked.max_blocks, step)

    def after_step(self, seconds: float) -> None:
        """Let the window follow what the step waited, where it adjusts itself."""
        if self._auto is not None:
            counters = self._m.counters
            self._m.streamer.window = self._auto.after_step(
                stall_s=counters.stall_s, seconds=seconds, late=counters.late, misses=counters.misses
            )

    def _resize(self, wanted: int, step: int) -> None:
        old = self._m.arena.num_slots
        if self._shares_host:
            self._sink.log("warning", "max_gpu_blocks has no effect: products read the weights where they lie in RAM")
            return
        slots = cap_slots(wanted, self._partition)
        if slots == old:
            return
        try:
            self._give_arena(slots)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error).splitlines()[0] if str(error) else type(error).__name__
        else:
            self._changed("max_gpu_blocks", old, slots, step)
            return
        self._give_arena(old)  # what it had before fits: it was given back a moment ago
        self._sink.log("warning", f"max_gpu_blocks stays {old}: the device has no memory for {slots} ({shortage})")

    def _give_arena(self, slots: int) -> None:
        self._m.streamer.resize(slots, self._partition.block_numel, self._config.compute_dtype)
        self._m.gather.num_slots = gradient_slots(slots)

    def _changed(self, knob: str, old: object, new: object, step: int) -> None:
        self._sink.note(
            "changed", f"{knob} is {new} instead of {old} from optimizer step {step} on",
            {"knob": knob, "old": old, "new": new, "step": step},
        )  # fmt: skip
