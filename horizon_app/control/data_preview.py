"""Looks at data in processes of their own: that needs a tokenizer, and the server stays light."""

import logging
import queue
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.data_view import DataPreview, LookAsked
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.control.errors import DataRefused, PreviewFailed
from horizon_app.control.look_process import LIMIT_S, LookProcess
from horizon_app.control.paths import rules_for_clients
from horizon_app.settings import AppSettings

_AT_ONCE = 2
_log = logging.getLogger(__name__)


class DataLooks:
    """The looks at data of one server, or of one command. For any thread."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self._processes = [LookProcess() for _ in range(_AT_ONCE)]
        # The one that was used last comes first: the others are there for when it is busy.
        self._free: queue.LifoQueue[LookProcess] = queue.LifoQueue()
        for process in self._processes:
            self._free.put(process)

    def preview(self, data: dict[str, Any], tokenizer: str | None, *, most_samples: int) -> DataPreview:
        """What the files of a client's data section hold, with all that is wrong in some rows of them.

        Raises SpecRefused for the section, DataRefused where nothing can be shown of the files or they can't be trained
        on at all, and PreviewFailed.
        """
        rules = rules_for_clients(self._settings)
        problems: list[FieldProblem] = []
        spec = parse_spec({"model": {"path": tokenizer or "-"}, "data": data}).data
        paths = rules.resolve_all("data.path", spec.path, problems)
        folders = rules.resolve_all("tokenizer", [] if tokenizer is None else [tokenizer], problems)
        if problems:
            raise SpecRefused(problems)
        found = self._look(spec, paths, folders[0] if folders else None, most_samples)
        if found.num_errors and (not found.rows or any(error.line is None for error in found.errors)):
            raise DataRefused(found.errors)
        return found

    def problems(self, spec: DataSpec, paths: Sequence[Path], tokenizer_dir: Path) -> list[FieldProblem]:
        """What keeps a run from training on `paths`; of much data the beginning is looked at."""
        try:
            errors = self._look(spec, paths, tokenizer_dir, most_samples=0).errors
        except PreviewFailed as error:
            _log.warning("%s; the run itself will tell", error)
            return []
        ours = ("data.", "model.")
        return [
            error if error.field.startswith(ours) else error.model_copy(update={"field": "data.path"})
            for error in errors
        ]

    def close(self) -> None:
        """End the processes; a look that is under way fails."""
        for process in self._processes:
            process.end()
        for _ in self._processes:
            self._free.get().close()

    def _look(
        self, spec: DataSpec, paths: Sequence[Path], tokenizer_dir: Path | None, most_samples: int
    ) -> DataPreview:
        asked = LookAsked(spec=spec, paths=[*paths], tokenizer_dir=tokenizer_dir, most_samples=most_samples)
        try:
            process = self._free.get(timeout=LIMIT_S)
        except queue.Empty:
            raise PreviewFailed(f"{_AT_ONCE} other looks at data take long; ask again when they have ended") from None
        try:
            return process.look(asked)
        finally:
            self._free.put(process)
