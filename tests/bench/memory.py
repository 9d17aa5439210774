"""What it takes to load a model of 1.5 GB, beside what may be taken, and to export it: memory at its peak."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from horizon_app.contracts.export import EXPORT_EVENT, ExportDtype, Exported, ExportFormat, ExportOrder
from tests.bench.ballast import GIB
from tests.bench.processes import Missing, run_json
from tests.bench.report import Options, Report
from tests.support.load_memory import allowed_bytes, write_random_llama
from tests.support.small_model import write_small_model

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
            if stored == "float32":  # as checkpoints are
                rows += _exports(Path(folder), report)
    report.raw["memory"] = rows


def _exports(folder: Path, report: Report) -> list[dict[str, object]]:
    """Export it as people do; the process that loads the result with transformers is another one."""
    shutil.copytree(write_small_model(folder / "tokenizer"), folder, dirs_exist_ok=True, ignore=_config_alone)
    rows: list[dict[str, object]] = []
    for dtype in (ExportDtype.BF16, ExportDtype.FP32):
        order = ExportOrder(
            source=str(folder), target=str(folder / f"out-{dtype}"), format=ExportFormat.SAFETENSORS, dtype=dtype,
            shard_bytes=4 * GIB, run_id="bench", checkpoint=0,
        )  # fmt: skip
        ran = subprocess.run(
            [sys.executable, "-m", "horizon_app.worker.export"], input=order.model_dump_json() + "\n",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        done = EXPORT_EVENT.validate_json(ran.stdout.strip().splitlines()[-1])
        if not isinstance(done, Exported):
            report.write(f"  export as {dtype}: not measured: {done.message}\n")
            report.incomplete.append("memory")
            continue
        report.write(
            f"  export as {dtype}: {done.bytes / GIB:.2f} GiB in {done.seconds:.0f} s with what was read back and "
            f"loaded; the process held {done.peak_bytes / GIB:.2f} GiB at most, torch itself among it\n"
        )
        rows.append(done.model_dump(mode="json", include={"dtype", "bytes", "seconds", "peak_bytes"}))
        shutil.rmtree(done.path)
    return rows


def _config_alone(_folder: str, names: list[str]) -> list[str]:
    """The model's own config stays."""
    return [name for name in names if name == "config.json"]
