"""What it takes to load a model of 1.5 GB, beside what may be taken: the process's growth at its peak."""

import sys
import tempfile
from pathlib import Path

from tests.bench.ballast import GIB
from tests.bench.processes import Missing, run_json
from tests.bench.report import Options, Report
from tests.support.load_memory import allowed_bytes, write_random_llama

_WIDTH, _LAYERS, _ROWS = 2048, 12, 32_000


def run(options: Options, report: Report) -> None:
    """Load it from bf16 and from fp32 files, to compute in either."""
    report.write("\nMemory to load\n")
    rows: list[dict[str, object]] = []
    for stored in ("bfloat16", "float32"):
        with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as folder:
            size = write_random_llama(Path(folder), width=_WIDTH, layers=_LAYERS, rows=_ROWS, dtype=stored)
            for compute in ("bf16", "fp32"):
                answer = run_json([sys.executable, "-m", "tests.support.load_memory", folder, compute])
                if isinstance(answer, Missing):
                    report.write(f"  {stored} to {compute}: not measured: {answer.reason}\n")
                    report.incomplete.append("memory")
                    continue
                loaded, grown = answer["loaded_bytes"], answer["grown_bytes"]
                report.write(
                    f"  {size / GIB:.2f} GiB of {stored:<8} to {compute}: {loaded / GIB:.2f} GiB in the host tier, the "
                    f"process grew by {grown / GIB:.2f} GiB at most, {allowed_bytes(loaded) / GIB:.2f} GiB allowed\n"
                )
                rows.append({"stored": stored, "compute": compute, "stored_bytes": size, **answer})
    report.raw["memory"] = rows
