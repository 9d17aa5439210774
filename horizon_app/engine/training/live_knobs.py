"""Knobs that change while a run runs: asked for at any time, from any thread; taken up between two optimizer steps."""

import threading
from collections.abc import Callable, Mapping

from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.knobs import AskedChange, Knob, KnobStatus, KnobValue
from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.errors import EngineError, KnobRefused
from horizon_app.engine.hardware.memory_errors import is_out_of_memory
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.policy.choose import make_policy
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.assemble import Machinery
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.sizes import Sizes, cap_slots, gradient_slots
from horizon_app.engine.training.window import AutoWindow

_Turn = tuple[Callable[[], KnobValue], Callable[[KnobValue], None]]


class LiveKnobs:
    """Holds what was asked for, answers each change once, and has the window that adjusts itself."""

    def __init__(
        self, config: EngineConfig, sizes: Sizes, partition: Partition, machinery: Machinery, sink: TelemetrySink
    ) -> None:
        self._config, self._shares_host, self._partition = config, sizes.shares_host, partition
        self._m, self._sink = machinery, sink
        self._policy = config.policy
        self._auto = AutoWindow(machinery.streamer.window) if config.window is None else None
        self._asked: list[AskedChange] = []
        self._lock = threading.Lock()
        self._turns: Mapping[Knob, _Turn] = {
            Knob.PREFETCH_WINDOW: (self._window, self._set_window),
            Knob.MAX_GPU_BLOCKS: (lambda: self._m.arena.num_slots, self._resize),
            Knob.POLICY: (lambda: self._policy.value, self._set_policy),
        }

    def request(self, change: AskedChange) -> None:
        """Note what should change, behind what was asked for before. From any thread."""
        with self._lock:
            self._asked.append(change)

    def apply(self, step: int) -> None:
        """Take up what was asked for, in order, and answer it; optimizer step `step` is the first with it."""
        with self._lock:
            asked, self._asked = self._asked, []
        for change in asked:
            self._sink.knob(self._take_up(change, step))

    def after_step(self, seconds: float) -> None:
        """Let the window follow what the step waited, where it adjusts itself."""
        if self._auto is not None:
            counters = self._m.counters
            self._m.streamer.window = self._auto.after_step(
                stall_s=counters.stall_s, seconds=seconds, late=counters.late, misses=counters.misses
            )

    def _take_up(self, change: AskedChange, step: int) -> KnobChanged:
        read, turn = self._turns[change.knob]
        old = read()
        try:
            turn(change.value)
        except EngineError as error:
            status, new, message = KnobStatus.REFUSED, change.value, f"{change.knob} stays {old}: {error}"
        else:
            status, new = KnobStatus.HOLDS, read()
            instead = "as before" if new == old else f"instead of {old} from optimizer step {step} on"
            message = f"{change.knob} is {new} {instead}"
        return KnobChanged(
            number=change.number, knob=change.knob, old=old, new=new, step=step, who=change.who, status=status,
            message=message,
        )  # fmt: skip

    def _window(self) -> KnobValue:
        return "auto" if self._auto else self._m.streamer.window

    def _set_window(self, value: KnobValue) -> None:
        if value == "auto":
            self._auto = self._auto or AutoWindow(self._m.streamer.window)
        else:
            self._auto, self._m.streamer.window = None, int(value)

    def _set_policy(self, value: KnobValue) -> None:
        policy = Policy(value)
        if policy is not self._policy:
            self._m.streamer.use_policy(make_policy(policy, self._m.arena.num_slots))
            self._policy = policy

    def _resize(self, value: KnobValue) -> None:
        old = self._m.arena.num_slots
        if self._shares_host:
            raise KnobRefused("it has no effect in this run, whose products read the weights where they lie in RAM")
        slots = cap_slots(int(value), self._partition)
        if slots == old:
            return
        try:
            self._give_arena(slots)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error).splitlines()[0] if str(error) else type(error).__name__
        else:
            return
        self._give_arena(old)  # what it had before fits: it was given back a moment ago
        raise KnobRefused(f"the device has no memory for {slots} ({shortage})")

    def _give_arena(self, slots: int) -> None:
        self._m.streamer.resize(slots, self._partition.block_numel, self._config.compute_dtype)
        self._m.gather.num_slots = gradient_slots(slots)
