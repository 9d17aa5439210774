"""A home folder, open: what can be done with runs, for a server and for the command line alike."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from horizon_app.contracts.commands import SaveCheckpoint, StopRun
from horizon_app.contracts.frames import FRAME, Frame
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_state import ENDED, LIVE, RunState
from horizon_app.contracts.run_view import CheckpointsAnswer, LogAnswer, Run, RunDetail, RunPage, SeriesAnswer
from horizon_app.control.archive import set_archived
from horizon_app.control.checkpoints import set_pin
from horizon_app.control.cloning import clone, paths_of
from horizon_app.control.comparison import Comparisons
from horizon_app.control.data_preview import DataLooks
from horizon_app.control.deletion import Deletion
from horizon_app.control.dispatcher import Dispatcher
from horizon_app.control.errors import RunNotLive
from horizon_app.control.fixes import Fixes
from horizon_app.control.generators import Generators
from horizon_app.control.history import History
from horizon_app.control.history_export import HistoryExports
from horizon_app.control.hub import Hub, Viewer, Wrap, plain
from horizon_app.control.knobs import Knobs
from horizon_app.control.labels import label_problems
from horizon_app.control.launcher import Launcher
from horizon_app.control.lifecycle import change_state, locked_run, read_run
from horizon_app.control.machine import Machine
from horizon_app.control.overview import Overview
from horizon_app.control.paths import PathRules, rules_for_clients, rules_for_clone, rules_for_user
from horizon_app.control.pausing import Pausing
from horizon_app.control.queue import Queue
from horizon_app.control.resumption import resume
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.server_file import ServerInfo, find_server
from horizon_app.control.submission import Place, submit
from horizon_app.control.views import run_view, run_views
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database, open_database
from horizon_app.store.migrate import migrate
from horizon_app.store.runs import StoredOrder, StoredRun, update_run

_HOME_FOLDERS = ("models", "data", "examples", "runs")


class Workstation:
    """The use cases. Its plain methods may be called from any thread; each is one short transaction or two."""

    def __init__(self, settings: AppSettings, wrap: Wrap = plain) -> None:
        """`wrap` makes of a text or residency frame what viewers are given."""
        self.settings = settings
        self._wrap = wrap
        self.machine = Machine()
        self.launcher = Launcher(settings)
        self.generators = Generators(idle_s=settings.generator_idle_s)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> Self:
        """Make the home folder where it is missing, bring the database up to date. Raises StoreError, OSError."""
        for name in _HOME_FOLDERS:
            (self.settings.home / name).mkdir(parents=True, exist_ok=True)
        self.database: Database = open_database(self.settings)
        migrate(self.database)
        self.looks = DataLooks(self.settings)
        self.history = History(self.database, self.settings)
        self.overview = Overview(self.history, self._wrap)
        self.hub = Hub(self.database, self._wrap, self.overview.mark)
        self.comparisons = Comparisons(self.database, self.history)
        self.exports = HistoryExports(self.database, self.history)
        self.pausing = Pausing(self.database, self.settings)
        self.knobs = Knobs(self.database, self.hub, self.settings)
        self.fixes = Fixes(self.database, self.knobs, self.clone)
        self.queue = Queue(self.database)
        self.deletion = Deletion(self.database, self.settings.runs_dir)
        self.dispatcher = Dispatcher(
            database=self.database, hub=self.hub, launcher=self.launcher, settings=self.settings
        )
        return self

    def catch_up(self) -> None:
        """Bring live runs up to what their workers have written; for use where nobody else watches."""
        self.deletion.tidy()
        self.dispatcher.look_once()

    def close(self) -> None:
        """Close the database, and end the looks at data. Runs go on without us."""
        self.looks.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(
        self,
        document: Any,
        *,
        base_dir: Path | None = None,
        start: bool = True,
        key: str | None = None,
        who: str = "api",
    ) -> RunDetail:
        """Check a decoded spec and queue it. Raises SpecRefused.

        Paths are relative to `base_dir` and free for the user of the command line; without it they come from a
        client, are relative to the home folder and confined to it and the allowed folders.
        """
        rules = rules_for_clients(self.settings) if base_dir is None else rules_for_user(base_dir)
        run_id = submit(self.database, document, self._place(rules), start=start, key=key, who=who)
        return self.history.run(run_id)

    def clone(
        self, run_id: str, changes: Mapping[str, Any], *, name: str | None = None, start: bool = True,
        key: str | None = None, by_client: bool = True, who: str = "api",
    ) -> RunDetail:  # fmt: skip
        """Submit a run's spec again, with changes by dotted key. Raises RunNotFound, SpecRefused, KeyReused."""

        def place(order: StoredOrder) -> Place:
            base = Path(order.base_dir)
            by = rules_for_clone(self.settings, base, paths_of(order)) if by_client else rules_for_user(base)
            return self._place(by)

        new_id = clone(self.database, run_id, changes, place, name=name, start=start, key=key, who=who)
        return self.history.run(new_id)

    def archive(self, run_id: str, *, archived: bool = True, who: str = "api") -> Run:
        """Put an ended run away, or take it back. Raises RunNotFound, RunIsLive."""
        return set_archived(self.database, run_id, archived=archived, who=who)

    def stop(self, run_id: str, *, save: bool = True, who: str = "api") -> Run:
        """Ask a run to stop at the next optimizer step; one that waits leaves the queue.

        Raises RunNotFound, RunNotLive.
        """
        with self.database.write() as tx:
            run = locked_run(tx, run_id)
            if run.state in ENDED:
                raise RunNotLive(run_id=run_id, state=run.state, action="stop")
            if run.state is RunState.QUEUED:
                change_state(tx, run_id, RunState.STOPPED, "stopped while it waited in the queue", who=who)
            elif run.state is not RunState.STOPPING:
                change_state(
                    tx, run_id, RunState.STOPPING, f"asked to stop, {'' if save else 'not '}saving first", who=who
                )
            if run.state in LIVE:  # while the row is held: nobody may resume the run in between
                self._folder(run_id).append_command(StopRun(save=save))
            return run_view(locked_run(tx, run_id))

    def resume(self, run_id: str, changes: Mapping[str, Any], *, by_client: bool = True, who: str = "api") -> Run:
        """Queue an ended run again: it goes on from its newest whole checkpoint, with `changes` to its spec.

        A paused one goes on where it stands.

        Raises RunNotFound, RunIsLive, NothingToResume, WorkerStillThere, SpecRefused.
        """

        def place(order: StoredOrder) -> Place:
            rules = rules_for_clients(self.settings) if by_client else rules_for_user(Path(order.base_dir))
            return self._place(rules)

        run = self._read(run_id)
        if run.state in LIVE and self.server() is None:
            self.dispatcher.settle(run)  # nobody else would notice that its worker is gone
        paused = None if changes else self.pausing.go_on(run_id, who=who)
        if paused is not None:
            return paused
        resume(self.database, run_id, changes, place, who=who)
        with self.database.read() as tx:
            return run_views(tx, [read_run(tx, run_id)])[0]

    def save_checkpoint(self, run_id: str) -> Run:
        """Ask a live run for a checkpoint after its next optimizer step. Raises RunNotFound, RunNotLive."""
        with self.database.write() as tx:
            run = locked_run(tx, run_id)
            if run.state not in LIVE:
                raise RunNotLive(run_id=run_id, state=run.state, action="save")
            self._folder(run_id).append_command(SaveCheckpoint())
        return run_view(run)

    def pin(self, run_id: str, step: int, *, pinned: bool) -> CheckpointsAnswer:
        """Keep a checkpoint from being rotated away, or no longer. Raises RunNotFound, CheckpointNotFound, OSError."""
        run = self._read(run_id)
        set_pin(self._folder(run.id).path, run.id, step, pinned=pinned)
        return self.history.checkpoints(run_id)

    def checkpoints(self, run_id: str) -> CheckpointsAnswer:
        """The checkpoints of a run. Raises RunNotFound."""
        return self.history.checkpoints(run_id)

    def edit(
        self, run_id: str, *, name: str | None = None, tags: Sequence[str] | None = None, notes: str | None = None
    ) -> Run:
        """Change a run's labels; None leaves one as it is. Raises RunNotFound, SpecRefused."""
        labels = None if tags is None else list(tags)
        problems = label_problems(name=name, tags=labels, notes=notes)
        if problems:
            raise SpecRefused(problems)
        changes = {"name": name, "tags": labels, "notes": notes}
        with self.database.write() as tx:
            locked_run(tx, run_id)
            update_run(tx, run_id, **{column: value for column, value in changes.items() if value is not None})
            return run_view(locked_run(tx, run_id))

    def run(self, run_id: str) -> RunDetail:
        """One run. Raises RunNotFound."""
        return self.history.run(run_id)

    def runs(
        self, *, state: Sequence[RunState] = (), tag: str | None = None, q: str | None = None,
        archived: Literal["false", "true", "all"] = "false",
        sort: str = "-created_at", limit: int = 50, cursor: str | None = None,
    ) -> RunPage:  # fmt: skip
        """A page of the history. Raises BadQuery."""
        return self.history.runs(states=state, tag=tag, q=q, archived=archived, sort=sort, limit=limit, cursor=cursor)

    def series(self, run_id: str, keys: Sequence[str] | None = None, *, max_points: int = 1000) -> SeriesAnswer:
        """Metrics of a run. Raises RunNotFound."""
        return self.history.series(run_id, keys, max_points=max_points)

    def events(
        self, run_id: str, *, after: int = 0, limit: int = 500, types: Sequence[str] | None = None
    ) -> list[Frame]:
        """Events behind a place, of all types where none is named. Raises RunNotFound."""
        return self.history.events(run_id, after=after, limit=limit, types=types)[0]

    def logs(
        self, run_id: str, *, after: int | None = None, q: str | None = None, level: str | None = None, limit: int = 500
    ) -> LogAnswer:
        """Log lines behind a place, or the newest where none is named. Raises RunNotFound."""
        return self.history.logs(run_id, after=after, text=q, level=level, limit=limit)

    def server(self) -> ServerInfo | None:
        """The server that runs on this home folder now."""
        return find_server(self.settings.home)

    async def attend(self) -> None:
        """Watch every live run and start what is queued, until cancelled. For a server."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self.deletion.tidy)
        await self.dispatcher.run()

    def nudge(self) -> None:
        """Something was changed by this process: look at once rather than within a second. For any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.dispatcher.wake)

    def tell_gone(self, run_id: str) -> None:
        """A run was deleted by this process: its viewers hear of it at once. For any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.hub.forget, run_id)
            self.nudge()

    async def supervise(
        self, run_id: str, on_event: Callable[[Frame], None], *, after: int = 0, start: bool = True
    ) -> RunDetail:
        """See one run through: start it when nothing else is live, record it, hand over each event, until it has ended.

        Its worker, and all that the worker started, is gone then. Events up to `after` are left out: those of the time
        before a run was resumed. Where a server runs on the same home folder, that one does the starting; with `start`
        false nothing is started here in any case.
        """
        attending = asyncio.create_task(
            self.dispatcher.run(only=run_id, may_start=lambda: start and self.server() is None)
        )
        try:
            with self.hub.view(run_id, after=after, last_seq=self.run(run_id).last_seq) as viewer:
                while not await self._hand_over(viewer, run_id, on_event):
                    await viewer.wait(timeout_s=1.0)
                await self.dispatcher.seen_off(run_id)
                await self._hand_over(viewer, run_id, on_event)  # what there was to tell of that
        finally:
            attending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await attending
        return await asyncio.to_thread(self.run, run_id)

    async def _hand_over(self, viewer: Viewer, run_id: str, on_event: Callable[[Frame], None]) -> bool:
        """Hand over what is new; whether the run has ended and that is all."""
        ended = (await asyncio.to_thread(self.run, run_id)).state in ENDED
        if ended:
            await self.hub.refresh(run_id)
        while texts := await viewer.texts():
            for text in texts:
                on_event(FRAME.validate_json(text))
        return ended

    def _place(self, rules: PathRules) -> Place:
        return Place(
            rules=rules, runs_dir=self.settings.runs_dir, machine_facts=self.machine.facts,
            check_data=self.looks.problems if self.settings.check_data else lambda spec, paths, tokenizer_dir: [],
        )  # fmt: skip

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.settings.runs_dir, run_id)

    def _read(self, run_id: str) -> StoredRun:
        with self.database.read() as tx:
            return read_run(tx, run_id)
