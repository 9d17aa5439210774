"""The knobs of a scripted worker: taken up before a step, in order, or refused where the script says so."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from horizon_app.contracts.commands import COMMAND, SetKnobs
from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.knobs import AskedChange, Knob, KnobStatus, KnobValue

FIRST: Mapping[Knob, KnobValue] = {
    Knob.PREFETCH_WINDOW: 3, Knob.MAX_GPU_BLOCKS: 2, Knob.POLICY: "clock_pro", Knob.CHECKPOINT_EVERY: 100,
    Knob.EVALUATION_EVERY: 50, Knob.SAMPLES_EVERY: 0,
}  # fmt: skip


class ScriptedKnobs:
    def __init__(self, commands: Path, refused: Mapping[str, str]) -> None:
        """`refused` are knobs that take no change, each with the reason."""
        self._commands, self._refused = commands, refused
        self._values = dict(FIRST)
        self._lines_read = 0

    def take_up(self, step: int) -> Iterator[KnobChanged]:
        """Answers to what was asked for since the last call; `step` is the first with it."""
        content = self._commands.read_bytes() if self._commands.exists() else b""
        lines = content[: content.rfind(b"\n") + 1].splitlines()
        for line in lines[self._lines_read :]:
            command = COMMAND.validate_json(line)
            if isinstance(command, SetKnobs):
                yield from (self._answer(change, step) for change in command.changes)
        self._lines_read = len(lines)

    def _answer(self, change: AskedChange, step: int) -> KnobChanged:
        old, reason = self._values[change.knob], self._refused.get(change.knob)
        if reason is None:
            self._values[change.knob] = change.value
        return KnobChanged(
            number=change.number, knob=change.knob, old=old, new=change.value, step=step, who=change.who,
            status=KnobStatus.HOLDS if reason is None else KnobStatus.REFUSED,
            message=reason or f"{change.knob} is {change.value} instead of {old} from optimizer step {step} on",
        )  # fmt: skip
