"""The parent's side of a measurement: a loop or a probe in a fresh process, and what came of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.work import Work

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """Which Python runs a loop, and what its environment holds beside ours."""

    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


OWN = Interpreter()


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One row of a table: how to build its loop, and under which settings it runs."""

    name: str
    build: str
    """`module:function`; called with the work and `options`, answers a `Loop`."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    worker_settings: bool = False
    """Whether it runs with the worker's own allocator and thread settings, or as people start Python."""
    interpreter: Interpreter = OWN


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One variant in one round."""

    seconds: list[float]
    peak_bytes: int
    tokens: int
    """Tokens a step."""
    facts: Mapping[str, Any]

    @property
    def tokens_per_second(self) -> float:
        """Over all measured steps, since a loop may put some of one off to the next."""
        return self.tokens * len(self.seconds) / sum(self.seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """What could not be measured, and why."""

    reason: str


Result = Measured | Missing


def run_variant(variant: Variant, work: Work, *, warm_up: int, steps: int, profile: bool = False) -> Result:
    """Measure in a fresh process; a loop that fails is a result as well."""
    request = {
        "build": variant.build, "options": dict(variant.options), "work": asdict(work), "warm_up": warm_up,
        "steps": steps, "worker_settings": variant.worker_settings, "profile": profile,
    }  # fmt: skip
    command = [variant.interpreter.python, "-m", "tests.bench.loop_process", json.dumps(request)]
    answer = run_json(command, variant.interpreter.environment)
    if isinstance(answer, Missing):
        return answer
    return Measured(
        seconds=answer["seconds"], peak_bytes=answer["peak_bytes"], tokens=work.sequences * work.tokens,
        facts=answer["facts"],
    )  # fmt: skip


def run_json(
    command: list[str], environment: Mapping[str, str] | None = None, time_limit_s: float = TIME_LIMIT_S
) -> dict[str, Any] | Missing:
    """The JSON object on the last line that a command prints, or why there is none."""
    code, output, errors = run(command, environment, time_limit_s)
    if code is None:
        return Missing(reason=f"took longer than {time_limit_s:.0f} s")
    if code != 0:
        return Missing(reason=_last_words(errors) or f"ended with {code}")
    return json.loads(output.strip().splitlines()[-1])


def run(command: list[str], environment: Mapping[str, str] | None, time_limit_s: float) -> tuple[int | None, str, str]:
    """Exit code, output and errors of a command in a process group of its own; no code where it took too long."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        return None, output, errors
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output, errors


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.partition(":")[0]]
    return (named or lines or [""])[-1][:300]
