"""Real workers that start in a tenth of a second: a process that has loaded torch once, and forks one for each line.

`python -m tests.support.worker_nursery` reads run folders from standard input, a line each, and answers with the
process id of the worker that it starts there. A second line `wait PID` answers with the exit status.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]


class WorkerNursery:
    """The parent's side."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker_nursery"], cwd=ROOT, text=True, bufsize=1,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._read() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def start(self, run_dir: Path) -> int:
        """Start a worker on a run's folder; gives its process id."""
        return int(self._ask(str(run_dir)))

    def wait(self, pid: int) -> int:
        """Wait for a worker's end; gives its exit code, negative for a signal."""
        return int(self._ask(f"wait {pid}"))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def _serve() -> None:
    import torch

    from horizon_app.worker.__main__ import end_process, main

    for module in ("transformers.models.llama.modeling_llama", "horizon_app.engine.training.engine"):
        importlib.import_module(module)  # what each worker would load
    torch.set_num_threads(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        words = line.strip()
        if words.startswith("wait "):
            _, status = os.waitpid(int(words.removeprefix("wait ")), 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                os.setsid()
                end_process(main([words]))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
