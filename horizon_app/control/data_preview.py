"""Looks at data in a process of its own: that needs a tokenizer, and the server stays light."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.data_view import DataPreview
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.errors import DataRefused, PreviewFailed
from horizon_app.control.paths import rules_for_clients
from horizon_app.settings import AppSettings

_LIMIT_S = 120
_few_at_a_time = threading.BoundedSemaphore(2)
_log = logging.getLogger(__name__)


def preview_for_client(
    settings: AppSettings, data: dict[str, Any], tokenizer: str | None, *, most_samples: int
) -> DataPreview:
    """What the files of a spec's data section hold, with all that is wrong in some rows of them.

    Raises SpecRefused for the section, DataRefused where nothing can be shown of the files or they can't be trained on
    at all, and PreviewFailed.
    """
    rules = rules_for_clients(settings)
    problems: list[FieldProblem] = []
    spec = parse_spec({"model": {"path": tokenizer or "-"}, "data": data}).data
    paths = rules.resolve_all("data.path", spec.path, problems)
    folders = rules.resolve_all("tokenizer", [] if tokenizer is None else [tokenizer], problems)
    if problems:
        raise SpecRefused(problems)
    found = _look(spec, paths, folders[0] if folders else None, most_samples)
    if found.num_errors and (not found.rows or any(error.line is None for error in found.errors)):
        raise DataRefused(found.errors)
    return found


def data_problems(spec: DataSpec, paths: Sequence[Path], tokenizer_dir: Path) -> list[FieldProblem]:
    """What keeps a run from training on `paths`; of much data the beginning is looked at."""
    try:
        errors = _look(spec, paths, tokenizer_dir, most_samples=0).errors
    except PreviewFailed as error:
        _log.warning("%s; the run itself will tell", error)
        return []
    ours = ("data.", "model.")
    return [
        error if error.field.startswith(ours) else error.model_copy(update={"field": "data.path"}) for error in errors
    ]


def _look(spec: DataSpec, paths: Sequence[Path], tokenizer_dir: Path | None, most_samples: int) -> DataPreview:
    options = spec.model_dump(mode="json", exclude={"path", "format", "eval_path"})
    command = [sys.executable, "-m", "horizon_app", "data", "preview", "--json", "--samples", str(most_samples)]
    command += ["--format", spec.format.value]
    command += [part for key, value in options.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    command += [] if tokenizer_dir is None else ["--tokenizer", str(tokenizer_dir)]
    try:
        with _few_at_a_time:
            ran = subprocess.run(
                [*command, "--", *map(str, paths)], capture_output=True, timeout=_LIMIT_S, check=False,
                stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONUTF8": "1"},
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PreviewFailed(f"the data could not be looked at: {error}") from error
    try:
        return DataPreview.model_validate_json(ran.stdout)
    except ValidationError as error:
        told = ran.stderr.decode(errors="replace").strip()
        _log.error("the look at data ended with exit code %d: %s", ran.returncode, told)
        last = " / ".join(told.splitlines()[-3:])
        raise PreviewFailed(f"the data could not be looked at (exit code {ran.returncode}): {last}") from error
