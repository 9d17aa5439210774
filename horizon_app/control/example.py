"""The starter example, written by a process of its own: it trains a tokenizer, and the server stays light."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import yaml

from horizon_app.contracts.machine_view import ExampleAnswer
from horizon_app.control.catalog import spec_path
from horizon_app.control.errors import ExampleFailed
from horizon_app.settings import AppSettings

_LIMIT_S = 300
_one_at_a_time = threading.Lock()


def write_example(settings: AppSettings) -> ExampleAnswer:
    """Write HOME/examples/starter where it is not there; gives its spec, ready to submit. Raises ExampleFailed."""
    folder = settings.home / "examples" / "starter"
    with _one_at_a_time:
        if not (folder / "spec.yaml").is_file():
            _run_command(folder)
        spec = _read_spec(folder / "spec.yaml")
    for section in ("model", "data"):
        named = spec.get(section, {}).get("path")
        if isinstance(named, str) and not Path(named).is_absolute():
            spec[section]["path"] = spec_path(folder / named, settings.home)
    return ExampleAnswer(spec=spec, folder=spec_path(folder, settings.home))


def _run_command(folder: Path) -> None:
    command = [sys.executable, "-m", "horizon_app", "example", str(folder)]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExampleFailed(f"the example could not be written: {error}") from error
    if ran.returncode != 0:
        last = (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-3:]
        raise ExampleFailed(f"the example could not be written (exit code {ran.returncode}): {' / '.join(last)}")


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ExampleFailed(f"the example's spec can't be read: {error}") from error
    if not isinstance(spec, dict):
        raise ExampleFailed("the example's spec is not a mapping")
    return cast(dict[str, Any], spec)
