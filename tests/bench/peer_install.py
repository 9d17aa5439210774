"""Rivals in environments of their own, in the user's cache folder: installed and built once, then found again."""

import shutil
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import platformdirs

from tests.bench.processes import Interpreter, Missing, run

DEEPSPEED = "deepspeed==0.19.8"
_INSTALL_LIMIT_S, _BUILD_LIMIT_S = 900.0, 1800.0
_BUILD = """
from deepspeed.accelerator import get_accelerator
for name in ("CPUAdamBuilder", "ShareMemCommBuilder", "AsyncIOBuilder"):
    get_accelerator().create_op_builder(name).load(verbose=False)
    print(name, flush=True)
"""


def default_folder() -> Path:
    """Where rivals are kept between two runs of the benchmark."""
    return Path(platformdirs.user_cache_dir("horizon")) / "bench-peers"


def deepspeed_interpreter(folder: Path) -> Interpreter | Missing:
    """A Python with DeepSpeed and its operators built, or why there is none."""
    home = folder / "deepspeed"
    python = home / "bin" / "python"
    interpreter = Interpreter(
        python=str(python),
        environment={
            "PATH": f"{home / 'bin'}:{sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin",
            "TORCH_EXTENSIONS_DIR": str(home / "operators"),
            "DS_ACCELERATOR": "cpu",
            "MAX_JOBS": "2",
        },
    )
    wanted = [f"torch=={version('torch').partition('+')[0]}", f"transformers=={version('transformers')}", DEEPSPEED]
    stamp = home / "ready"
    if stamp.is_file() and stamp.read_text() == " ".join(wanted):
        return interpreter
    missing = _needs() or _install(home, python, wanted) or _build(interpreter, home)
    if missing is not None:
        return missing
    stamp.write_text(" ".join(wanted))
    return interpreter


def _needs() -> Missing | None:
    if shutil.which("c++") is None:
        return Missing(reason="its operators need a C++ compiler (Debian: apt install g++)")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return Missing(reason="its operators need Python's headers (Debian: apt install python3-dev)")
    if not Path("/usr/include/libaio.h").is_file():
        return Missing(reason="its NVMe operator needs libaio's headers (Debian: apt install libaio-dev)")
    return None


def _install(home: Path, python: Path, wanted: list[str]) -> Missing | None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch_first, transformers, deepspeed = wanted
    steps = [
        [sys.executable, "-m", "venv", str(home)],
        [*pip, torch_first],  # before whatever else asks for it, so that this build of it is kept
        [*pip, transformers, "numpy", "ninja", "setuptools", "wheel"],
        [*pip, "--no-build-isolation", deepspeed],
    ]
    for command in steps:
        code, _output, errors = run(command, {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}, _INSTALL_LIMIT_S)
        if code != 0:
            return Missing(reason=f"could not be installed ({command[-1]}): {errors.strip()[-200:] or 'no answer'}")
    return None


def _build(interpreter: Interpreter, home: Path) -> Missing | None:
    """Compile the operators now, in a step with a limit of its own: at the first use nothing would say what takes long.

    A build that was ended leaves a lock, on which every later start waits for ever. What it had compiled is kept.
    """
    for lock in (home / "operators").glob("**/lock"):
        lock.unlink()
    code, output, errors = run([interpreter.python, "-c", _BUILD], interpreter.environment, _BUILD_LIMIT_S)
    if code == 0:
        return None
    built = " ".join(output.split()) or "none"
    why = f"took longer than {_BUILD_LIMIT_S:.0f} s" if code is None else errors.strip()[-200:]
    return Missing(reason=f"its operators could not be built (built: {built}): {why}")
