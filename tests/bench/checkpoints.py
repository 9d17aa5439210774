"""What a checkpoint of a model of 1.5 GB takes to write and to read, and what writing costs the steps beside it."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.ballast import GIB
from tests.bench.processes import Missing, run_json
from tests.bench.report import Options, Report
from tests.support.load_memory import write_random_llama

_WIDTH, _LAYERS, _ROWS = 2048, 5, 24_000
_PROCESS = [sys.executable, "-m", "tests.bench.checkpoint_process"]
_WORKER = {"OMP_WAIT_POLICY": "PASSIVE"}


def run(options: Options, report: Report) -> None:
    """Memory at the peak, seconds, and the ratio of steps with and without saving."""
    report.write("\nCheckpoints\n")
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as name:
        folder = Path(name)
        (folder / "model").mkdir()
        size = write_random_llama(folder / "model", width=_WIDTH, layers=_LAYERS, rows=_ROWS, dtype="float32")
        saved = _ask(["save", name + "/model", name + "/saved"], report)
        if saved:
            report.write(
                f"  {size / GIB:.2f} GiB of masters, {saved['bytes'] / GIB:.2f} GiB with moments: written in "
                f"{saved['seconds']:.1f} s, on the disk after {saved['synced_seconds']:.1f} s; the process grew by "
                f"{saved['grown_bytes'] / 2**20:.0f} MiB at most\n"
            )
            read = _ask(["resume", name + "/saved"], report)
            if read:
                report.write(
                    f"  gone on with in {read['seconds']:.1f} s; the process grew by {read['grown_bytes'] / GIB:.2f} "
                    f"GiB at most, to hold {read['held_bytes'] / GIB:.2f} GiB of masters and moments\n"
                )
                figures |= {"save": saved, "resume": read}
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as name:
        steps = _ask(["beside", name, str(options.rounds)], report)
        if steps:
            report.write(
                f"  50M, saved every second step: {steps['waiting'] / steps['unsaved']:.2f} times the time of steps "
                f"without saving where they wait for it, {steps['beside'] / steps['unsaved']:.2f} times beside them\n"
            )
            figures["steps"] = steps
    report.raw["checkpoints"] = figures


def _ask(arguments: list[str], report: Report) -> dict[str, Any] | None:
    answer = run_json([*_PROCESS, *arguments], _WORKER)
    if isinstance(answer, Missing):
        report.write(f"  {arguments[0]}: not measured: {answer.reason}\n")
        report.incomplete.append("checkpoints")
        return None
    return answer
