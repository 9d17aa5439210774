"""`python -m tests.support.scripted_worker RUN_DIR`: a worker of contracts alone, which starts at once.

It does what the run's notes tell it as JSON: `step_s`, `ignore_stop`, `nan_at`, `losses` (one a step), `garbage_at`,
`metrics` (more of each step), `log_bytes` (a log line a step), `die_at` (a torn line, then SIGKILL), `refused_knobs`
(reasons by knob), `lingers_s` (it stays that long after its last word, and what it started for ever; the process id of
that stands in child.json).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from horizon_app.contracts.events import (
    WORKER,
    CheckpointWritten,
    Event,
    FactNoted,
    LogWritten,
    RunOutcome,
    StateChanged,
    metrics_event,
)
from horizon_app.contracts.residency import (
    BlockFacts,
    BlockLayout,
    Direction,
    FrameHeader,
    MapId,
    StageLayout,
    encode_frame,
)
from horizon_app.contracts.run_state import RunState
from tests.support.scripted_knobs import ScriptedKnobs

NUM_BLOCKS = 8


class ScriptedWorker:
    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        order = json.loads((run_dir / "run.json").read_text())
        self._steps: int = order["spec"]["training"]["optimizer_steps"]
        self._script: dict[str, Any] = json.loads(order["spec"]["notes"] or "{}")
        self._journal = (run_dir / "journal.jsonl").open("ab", buffering=0)
        self._frames = (run_dir / "residency.bin").open("ab", buffering=0)
        self._signalled = False
        self._knobs = ScriptedKnobs(run_dir / "commands.jsonl", self._script.get("refused_knobs", {}))

    def run(self) -> int:
        self._heed_signals()
        identity = {"pid": os.getpid(), "start_time": psutil.Process().create_time(), "heartbeat": time.time()}
        (self._run_dir / "worker.json").write_text(json.dumps(identity))
        if "lingers_s" in self._script:
            child = subprocess.Popen(["sleep", "infinity"])
            (self._run_dir / "child.json").write_text(str(child.pid))
        self._emit(LogWritten(message="hello"))
        self._emit(
            FactNoted(
                kind="plan", message="", data={"total_steps": self._steps, "blocks": NUM_BLOCKS, "max_gpu_blocks": 2}
            )
        )
        self._emit(FactNoted(kind="layout", message="", data=layout().model_dump(mode="json")))
        self._emit(StateChanged(state=RunState.RUNNING, who=WORKER))
        done = 0
        while done < self._steps and not self._should_stop():
            done += 1
            self._step(done)
        state = RunState.FINISHED if done == self._steps else RunState.STOPPED
        self._emit(CheckpointWritten(step=done, path=f"checkpoints/{done}", bytes=7))
        outcome = RunOutcome(state=state, optimizer_steps=done)
        self._emit(FactNoted(kind="outcome", message="", data=outcome.model_dump(mode="json")))
        self._emit(StateChanged(state=state, who=WORKER))
        words = {"exit_code": 0, "state": state.value, "reason": ""}
        (self._run_dir / "exit.json").write_text(json.dumps(words))
        time.sleep(self._script.get("lingers_s", 0))
        return 0

    def _step(self, step: int) -> None:
        for answer in self._knobs.take_up(step):
            self._emit(answer)
        time.sleep(float(self._script.get("step_s", os.environ.get("HORIZON_FAKE_STEP_S", "0.01"))))
        if step == self._script.get("die_at"):
            self._journal.write(b'{"type":"metrics","step":')
            os.kill(os.getpid(), signal.SIGKILL)
        if step == self._script.get("garbage_at"):
            self._journal.write(b'{"type":"surprise"}\n')
        if self._script.get("log_bytes"):
            self._emit(LogWritten(message="x" * self._script["log_bytes"]))
        losses = self._script.get("losses")
        loss = 4.0 / step if losses is None else losses[step - 1]
        loss = float("nan") if step == self._script.get("nan_at") else loss
        more: dict[str, float] = self._script.get("metrics", {})
        self._emit(metrics_event(step, {"train/loss": loss, "time/step": 0.01, **more}))
        self._frames.write(frame(step))

    def _emit(self, event: Event) -> None:
        self._journal.write(event.model_dump_json().encode() + b"\n")

    def _should_stop(self) -> bool:
        if self._script.get("ignore_stop"):
            return False
        commands = self._run_dir / "commands.jsonl"
        return self._signalled or (commands.exists() and b"stop" in commands.read_bytes())

    def _heed_signals(self) -> None:
        def note(_number: int, _frame: object) -> None:
            self._signalled = True

        signal.signal(signal.SIGTERM, note)


def layout() -> BlockLayout:
    """One stage of eight blocks."""
    blocks = [BlockFacts(stage=0, parameters=["weight"], elements=8, bytes=32) for _ in range(NUM_BLOCKS)]
    return BlockLayout(
        block_bytes=32, max_device_blocks=2, device="cpu", compute_dtype="float32", parameters=64, blocks=blocks,
        stages=[StageLayout(name="L0", first_block=0, num_blocks=NUM_BLOCKS)],
    )  # fmt: skip


def frame(step: int) -> bytes:
    """A residency frame of one step."""
    states = bytes(3 if block == step % NUM_BLOCKS else 0 for block in range(NUM_BLOCKS))
    header = FrameHeader(
        time_us=step, step=step, compute_step=0, stage=0, direction=Direction.FORWARD, window=3,
        num_blocks=NUM_BLOCKS, slots_used=1,
    )  # fmt: skip
    return encode_frame(header, {MapId.DEVICE_WEIGHT: states})


if __name__ == "__main__":
    sys.exit(ScriptedWorker(Path(sys.argv[1])).run())
