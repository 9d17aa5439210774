"""Questions about runs, live or past. Changes nothing."""

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.frames import FRAME, Frame
from horizon_app.contracts.residency import BlockLayout
from horizon_app.contracts.run_checks import RunChecks
from horizon_app.contracts.run_filter import FilterRefused
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import (
    CheckpointsAnswer,
    LogAnswer,
    LogLine,
    ResidencyAnswer,
    Run,
    RunDetail,
    RunPage,
    SeriesAnswer,
    SupersededSeries,
)
from horizon_app.control.checklist import checklist
from horizon_app.control.checkpoints import list_checkpoints
from horizon_app.control.errors import BadQuery, NothingRecorded, RunNotFound
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.views import detail_view, run_views, series_views
from horizon_app.settings import AppSettings
from horizon_app.store.checkpoints import checkpoints_of
from horizon_app.store.database import Database, Transaction
from horizon_app.store.events import LogFilter, event_at, events_after, log_lines
from horizon_app.store.metrics import metric_keys, series
from horizon_app.store.run_list import SORT_KEYS, BadCursor, RunFilter, is_sort_key, list_runs
from horizon_app.store.runs import StoredRun, changed_since, get_order, get_run, get_runs, live_runs
from horizon_app.store.segments import segments_of, superseded_series

_COMMIT_SLACK = timedelta(seconds=5)
"""How long after its time a change may come to be seen."""
TIMELINE_TYPES = ("state", "event", "checkpoint", "sample", "knobs", "check")
"""What a run's timeline shows: everything but metrics and log lines."""


class History:
    """Reads runs from the database and their folders."""

    def __init__(self, database: Database, settings: AppSettings) -> None:
        self._database = database
        self._settings = settings

    def runs(
        self,
        *,
        states: Sequence[RunState] = (),
        tag: str | None = None,
        q: str | None = None,
        archived: Literal["false", "true", "all"] = "false",
        sort: str = "-created_at",
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """A page of the history. Raises BadQuery."""
        key = sort.removeprefix("-")
        if not is_sort_key(key):
            keys = f"there are {', '.join(SORT_KEYS)}, and metrics such as eval/loss"
            raise BadQuery(field="sort", message=f"{key[:40]!r} is no sort key; {keys}")
        try:
            matching = None if q is None else parse_filter(q)
        except FilterRefused as error:
            raise BadQuery(field="q", message=error.message, fix=error.fix) from error
        which = RunFilter(
            states=tuple(states),
            tag=tag,
            matching=matching,
            sort=key,
            descending=sort.startswith("-"),
            archived=None if archived == "all" else archived == "true",
        )
        try:
            with self._database.read() as tx:
                page = list_runs(tx, which, limit=limit, cursor=cursor)
                runs = run_views(tx, page.runs)
        except BadCursor as error:
            raise BadQuery(field="cursor", message=str(error)) from error
        return RunPage(runs=runs, next_cursor=page.next_cursor, total=page.total, counts=page.counts)

    def run(self, run_id: str) -> RunDetail:
        """One run. Raises RunNotFound."""
        with self._database.read() as tx:
            run, order = get_run(tx, run_id), get_order(tx, run_id)
            if run is None or order is None:
                raise RunNotFound(run_id)
            recorded, (summary,) = checkpoints_of(tx, run_id), run_views(tx, [run])
            parts = segments_of(tx, run_id)
        return detail_view(summary, run, order, list_checkpoints(self._folder(run_id), run_id, recorded), parts)

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run, whole ones and broken ones. Raises RunNotFound."""
        with self._database.read() as tx:
            self._get(tx, run_id)
            recorded = checkpoints_of(tx, run_id)
        return CheckpointsAnswer(checkpoints=list_checkpoints(self._folder(run_id), run_id, recorded))

    def checks(self, run_id: str) -> RunChecks:
        """The checklist of a run. Raises RunNotFound."""
        with self._database.read() as tx:
            return checklist(tx, run_id)

    def summary(self, run_id: str) -> Run | None:
        """One run as the history lists it; None where there is none."""
        with self._database.read() as tx:
            run = get_run(tx, run_id)
            return None if run is None else run_views(tx, [run])[0]

    def live(self) -> list[Run]:
        """Runs that may have a worker, oldest first."""
        with self._database.read() as tx:
            return run_views(tx, live_runs(tx))

    def current(self, since: datetime | None) -> list[Run]:
        """Runs that may have a worker, and those that changed since a moment."""
        with self._database.read() as tx:
            live = live_runs(tx)
            changed = [] if since is None else changed_since(tx, since - _COMMIT_SLACK)
            known = {run.id for run in live}
            return run_views(tx, [*live, *get_runs(tx, [run_id for run_id in changed if run_id not in known])])

    def summaries(self, run_ids: Sequence[str]) -> list[Run]:
        """These runs as the history lists them; those that are gone are left out."""
        with self._database.read() as tx:
            return run_views(tx, get_runs(tx, run_ids))

    def series(
        self,
        run_id: str,
        keys: Sequence[str] | None = None,
        *,
        first: int | None = None,
        last: int | None = None,
        max_points: int = 1000,
        superseded: bool = False,
    ) -> SeriesAnswer:
        """Metrics of a run, all of them where none is named; what was done again only if asked. Raises RunNotFound."""
        with self._database.read() as tx:
            self._get(tx, run_id)
            wanted = metric_keys(tx, run_id) if keys is None else list(dict.fromkeys(keys))
            found = series(tx, run_id, wanted, first=first, last=last, max_points=max_points)
            past = {}
            if superseded:
                past = superseded_series(tx, run_id, keys, first=first, last=last, max_points=max_points)
        flags: dict[str, Any] = {key: one.nonfinite for key, one in found.items() if one.nonfinite}
        again = [SupersededSeries(segment=number, series=series_views(one)) for number, one in past.items()]
        return SeriesAnswer(series=series_views(found), nonfinite=flags, superseded=again)

    def events(
        self, run_id: str, *, after: int = 0, limit: int = 500, types: Sequence[str] | None = TIMELINE_TYPES
    ) -> tuple[list[Frame], int]:
        """Events behind a place and the run's newest place; `types` None gives all. Raises RunNotFound."""
        with self._database.read() as tx:
            run = self._get(tx, run_id)
            found = events_after(tx, run_id, after, limit=limit, types=types)
        return [FRAME.validate_python(frame) for frame in found], run.last_seq

    def logs(
        self,
        run_id: str,
        *,
        after: int | None = None,
        before: int | None = None,
        text: str | None = None,
        level: str | None = None,
        limit: int = 500,
    ) -> LogAnswer:
        """Log lines behind a place, or the newest (before a place) where none is named. Raises RunNotFound."""
        with self._database.read() as tx:
            run = self._get(tx, run_id)
            which = LogFilter(after=after, before=before, text=text, level=level)
            page = log_lines(tx, run_id, which, limit=limit)
        lines = [LogLine.model_construct(**line._asdict()) for line in page.lines]  # checked when they were recorded
        return LogAnswer(lines=lines, scanned_to=page.scanned_to, last_seq=run.last_seq)

    def residency(self, run_id: str, step: int | None = None) -> ResidencyAnswer:
        """The residency map at the end of a step, or now. Raises RunNotFound, NothingRecorded."""
        with self._database.read() as tx:
            run = self._get(tx, run_id)
            event = None if run.layout_seq is None else event_at(tx, run_id, run.layout_seq)
        if event is None:
            raise NothingRecorded(f"run {run_id} has no block layout yet: its model is not built")
        frame = RunFolder(self._settings.runs_dir, run_id).frame_at_step(step)
        shown = None if frame is None else base64.b64encode(frame).decode()
        return ResidencyAnswer(layout=BlockLayout.model_validate(event["data"]), frame=shown)

    def _folder(self, run_id: str) -> Path:
        return RunFolder(self._settings.runs_dir, run_id).path

    def _get(self, tx: Transaction, run_id: str) -> StoredRun:
        run = get_run(tx, run_id)
        if run is None:
            raise RunNotFound(run_id)
        return run
