"""Whatever is asked of runs, in whichever order: no state follows another that the table does not let it follow."""

import contextlib
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horizon_app.contracts.events import WORKER, StateChanged
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_state import ENDED, LIVE, RunState, is_legal
from horizon_app.control.errors import ControlError
from horizon_app.control.lifecycle import change_state
from horizon_app.control.recorder import JournalBatch, record_batch
from horizon_app.control.scheduler import start_next
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from horizon_app.store.queue import queue_positions
from horizon_app.store.runs import StoredRun, get_run, live_runs
from tests.support.idle_launcher import IdleLauncher
from tests.support.server import furnish_home, scripted_spec

Act = Callable[["Lives", str], object]


class Lives:
    """A home folder whose runs are asked for anything."""

    def __init__(self, station: Workstation) -> None:
        self.station = station
        self.launcher = IdleLauncher()
        self.ids: list[str] = []

    def submit(self, run_id: str) -> None:
        self.ids.append(self.station.submit(scripted_spec(), start=len(self.ids) % 3 != 2).id)

    def clone(self, run_id: str) -> None:
        self.ids.append(self.station.clone(run_id, {}).id)

    def worker_says(self, state: RunState, run_id: str) -> None:
        with self.station.database.read() as tx:
            run = get_run(tx, run_id)
        if run is None or run.state not in LIVE:
            return  # it has no worker
        line = StateChanged(state=state, who=WORKER).model_dump_json().encode()
        batch = JournalBatch(first_line=run.journal_seq + 1, end_bytes=run.journal_bytes + len(line), lines=[line])
        record_batch(self.station.database, run_id, batch)

    def lose_worker(self, run_id: str) -> None:
        with self.station.database.write() as tx:
            change_state(tx, run_id, RunState.INTERRUPTED, "its worker is gone", who="server")

    def start_next(self, run_id: str) -> None:
        start_next(self.station.database, self.launcher)

    def states(self, run_id: str) -> list[RunState]:
        events = self.station.events(run_id, limit=5000, types=["state"])
        return [event.state for event in events if isinstance(event, StateChanged)]


ACTS: dict[str, Act] = {
    "submit": Lives.submit,
    "clone": Lives.clone,
    "start next": Lives.start_next,
    "start": lambda lives, run: lives.station.queue.start(run, who="test"),
    "hold": lambda lives, run: lives.station.queue.hold(run, who="test"),
    "move": lambda lives, run: lives.station.queue.move(run, position=1, who="test"),
    "stop": lambda lives, run: lives.station.stop(run),
    "stop without saving": lambda lives, run: lives.station.stop(run, save=False),
    "resume": lambda lives, run: lives.station.resume(run, {}),
    "extend": lambda lives, run: lives.station.resume(run, {"training.optimizer_steps": 10_000}),
    "checkpoint": lambda lives, run: lives.station.save_checkpoint(run),
    "archive": lambda lives, run: lives.station.archive(run),
    "unarchive": lambda lives, run: lives.station.archive(run, archived=False),
    "delete": lambda lives, run: lives.station.deletion.delete(run),
    "lose worker": Lives.lose_worker,
    **{
        f"worker says {state.value}": lambda lives, run, state=state: lives.worker_says(state, run)
        for state in (RunState.RUNNING, RunState.PAUSED, *ENDED)
    },
}


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workstation]:
    home = furnish_home(tmp_path_factory.mktemp("lives") / "home")
    with Workstation(AppSettings(home=home, check_data=False)) as station, pytest.MonkeyPatch.context() as patch:
        patch.setattr(station.dispatcher, "settle", lambda _run: None)  # it would wait for workers that are none
        yield station


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 3)), min_size=10, max_size=30))
def test_no_sequence_of_use_cases_leaves_the_table(station: Workstation, asked: list[tuple[str, int]]) -> None:
    lives = Lives(station)
    for _ in range(2):
        lives.submit("")
    known: dict[str, StoredRun] = {}
    for name, index in asked:
        run_id = lives.ids[index % len(lives.ids)]
        with contextlib.suppress(ControlError, SpecRefused):
            ACTS[name](lives, run_id)
        with station.database.read() as tx:
            assert len([run for run in live_runs(tx) if not run.share_device]) <= 1, "two runs hold one device"
            known = {run: stored for run in lives.ids if (stored := get_run(tx, run)) is not None}
            waiting = {run for run, stored in known.items() if stored.state is RunState.QUEUED}
            assert waiting <= set(queue_positions(tx))
    for run_id, stored in known.items():
        walk = lives.states(run_id)
        assert walk[0] is RunState.QUEUED and walk[-1] is stored.state
        assert all(is_legal(old, new) for old, new in pairwise(walk)), walk
        assert stored.archived_at is None or stored.state in ENDED
    for run_id in known:  # the next example begins with an empty machine
        with contextlib.suppress(ControlError):
            station.stop(run_id)
        with contextlib.suppress(ControlError):
            lives.lose_worker(run_id)
