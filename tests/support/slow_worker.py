"""`python -m tests.support.slow_worker RUN_DIR`: the whole real worker around parts that take long, as the notes say.

`{"slow": "load" | "tokenise" | "step" | "save"}`: that takes HORIZON_SLOW_S seconds. `deaf`: it heeds no stop there,
and no SIGTERM. `children`: it starts one in its own group and one that left it, which ignore SIGTERM too; their process
ids stand in children.json of its folder.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horizon_app.data.errors import DataStopped
from horizon_app.engine.errors import BuildStopped
from horizon_app.worker.__main__ import end_process, main
from horizon_app.worker.parts import Builders
from tests.support.fake_engine import FakeEngine, fake_data, write_fake_model

_CHILD = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"


class _Slow:
    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._script: dict[str, Any] = json.loads(json.loads((run_dir / "run.json").read_text())["spec"]["notes"])
        self._seconds = float(os.environ.get("HORIZON_SLOW_S", "60"))

    def begin(self) -> None:
        """Start the children, and stop hearing. The worker has put its handlers in place."""
        if self._script.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pids: list[int] = []
        for leaves in (False, True) if self._script.get("children") else ():
            child = subprocess.Popen(
                [sys.executable, "-c", _CHILD], start_new_session=leaves, stdout=subprocess.PIPE
            )  # fmt: skip
            assert child.stdout is not None
            child.stdout.readline()
            pids.append(child.pid)
        (self._run_dir / "children.json").write_text(json.dumps(pids))

    def take_long(self, phase: str, should_stop: Callable[[], bool], stopped: type[Exception] | None) -> None:
        """Tell that the phase has begun; then take as long as it takes, or end it when asked."""
        if self._script.get("slow") != phase:
            return
        (self._run_dir / "phase").write_text(phase)
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            if stopped is not None and not self._script.get("deaf") and should_stop():
                raise stopped


def slow_builders(run_dir: Path) -> Builders:
    """Data and engine that heed a stop where the product's do."""
    slow = _Slow(run_dir)

    def data(spec: Any, paths: Any, tokenizer_dir: Path, should_stop: Callable[[], bool]) -> Any:
        slow.begin()
        slow.take_long("tokenise", should_stop, DataStopped)
        return fake_data(spec, paths, tokenizer_dir, should_stop)

    def engine(_spec: Any, _model: Path, _disk: Path, sink: Any, should_stop: Callable[[], bool]) -> Any:
        slow.take_long("load", should_stop, BuildStopped)

        def before_step(step: int) -> None:
            time.sleep(0.02)
            if step == 3:
                slow.take_long("step", should_stop, None)

        def save(folder: Path) -> None:
            slow.take_long("save", should_stop, None)
            write_fake_model(folder)

        return FakeEngine(sink, before_step, save)

    return Builders(data=data, engine=engine, writer=lambda spec, folder: None)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    end_process(main(sys.argv[1:], slow_builders(Path(sys.argv[1]))))
