"""After how many optimizer steps something is due: checkpoints, evaluations, samples. May change between two steps."""

import queue
from collections.abc import Callable

from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.knobs import AskedChange, Knob, KnobStatus
from horizon_app.contracts.run_spec import RunSpec

INTERVALS = frozenset({Knob.CHECKPOINT_EVERY, Knob.EVALUATION_EVERY, Knob.SAMPLES_EVERY})


class Intervals:
    """The intervals of one run, and the changes to them that wait."""

    def __init__(self, spec: RunSpec, answer: Callable[[KnobChanged], None], *, has_eval_data: bool) -> None:
        """`answer` is told what came of each change."""
        self._every = {
            Knob.CHECKPOINT_EVERY: spec.checkpoint.every, Knob.EVALUATION_EVERY: spec.evaluation.every,
            Knob.SAMPLES_EVERY: spec.samples.every,
        }  # fmt: skip
        self._refused: dict[Knob, str] = {}
        if not has_eval_data:
            self._refused[Knob.EVALUATION_EVERY] = "the run has no eval data (data.eval_path or data.eval_fraction)"
        if not spec.samples.prompts:
            self._refused[Knob.SAMPLES_EVERY] = "the run has no prompts (samples.prompts)"
        self._answer = answer
        self._asked: queue.SimpleQueue[AskedChange] = queue.SimpleQueue()

    def is_due(self, knob: Knob, step: int) -> bool:
        """Whether it is time after optimizer step `step`."""
        every = self._every[knob]
        return every > 0 and step % every == 0

    def is_on(self, knob: Knob) -> bool:
        """Whether it is ever time."""
        return self._every[knob] > 0

    def request(self, change: AskedChange) -> None:
        """Note what should change, behind what was asked for before. From any thread."""
        self._asked.put(change)

    def apply(self, step: int) -> None:
        """Take up what was asked for, in order, and answer it; optimizer step `step` is the first with it."""
        while not self._asked.empty():
            change = self._asked.get()
            self._answer(self._take_up(change, step))

    def _take_up(self, change: AskedChange, step: int) -> KnobChanged:
        knob, old, new = change.knob, self._every[change.knob], int(change.value)
        reason = self._refused.get(knob)
        if reason is None:
            status, message = KnobStatus.HOLDS, f"{knob} is {new} instead of {old} from optimizer step {step} on"
            self._every[knob] = new
        else:
            status, message = KnobStatus.REFUSED, f"{knob} stays {old}: {reason}"
        return KnobChanged(
            number=change.number, knob=knob, old=old, new=new, step=step, who=change.who, status=status, message=message
        )
