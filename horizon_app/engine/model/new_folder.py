"""A folder that appears whole or not at all."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from horizon_app.engine.errors import WeightsUnusable


@contextmanager
def appearing(out: Path) -> Generator[Path]:
    """A folder beside `out` that takes its name when the block ends well, and vanishes otherwise.

    Raises WeightsUnusable where `out` is there already and not an empty folder.
    """
    out = out.absolute()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise WeightsUnusable(f"{out} is there already and not an empty folder; name another, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    partial.mkdir()
    try:
        yield partial
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
