"""Pages under several threads, few frames and a disk that dawdles: contents are always what a dict would hold."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horizon_app.contracts.run_spec import Policy
from horizon_app.engine.errors import DiskCorrupt, DiskFailed, DiskFull, EngineError
from horizon_app.engine.memory.disk_store import DiskStore, new_buffer
from horizon_app.engine.memory.paged_plane import PagedPlane
from horizon_app.engine.memory.planes import DiskState, Opening, Visit
from horizon_app.engine.policy.choose import make_policy
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk

WATCHDOG_S = 60.0
COLUMNS = 8  # elements of a page that one thread writes
NUM_THREADS = 6
NUMEL = NUM_THREADS * COLUMNS
FIRST_PAGE = 3  # of the store: other planes lie in the same file
MOVES = 40
STRAIGHT = 0.25  # of the moves read past the frames
SEEDS, FRAMES = st.integers(0, 1 << 20), st.integers(4, 6)
FAULTS = [FaultKind.READ_ERROR, FaultKind.WRITE_ERROR, FaultKind.FLIPPED_BIT, FaultKind.LOST_WRITE]


class Rig:
    """A plane on a disk of its own."""

    def __init__(
        self, folder: Path, pages: int, frames: int, system: FaultyDisk, policy: Policy = Policy.OPTIMAL, *,
        reads_straight: bool = False,
    ) -> None:  # fmt: skip
        self.pages, self.system = pages, system
        self.store = DiskStore(folder, [NUMEL * 4] * (FIRST_PAGE + pages), system=system)
        self.plane = PagedPlane(
            self.store, FIRST_PAGE, [NUMEL] * pages, torch.float32, num_frames=frames,
            policy=make_policy(policy, frames), reads_straight=reads_straight,
        )  # fmt: skip

    def put(self, page: int, value: float) -> None:
        with self.plane.opened(page, Opening.FILL) as content:
            content.fill_(value)

    def get(self, page: int) -> list[float]:
        with self.plane.opened(page, Opening.READ) as content:
            return content.tolist()

    def read(self, page: int) -> torch.Tensor:
        """Straight from the disk where that may be; else as anybody."""
        memory = new_buffer(NUMEL * 4)
        event = self.plane.read_straight(page, memory)
        if event is None:
            return torch.tensor(self.get(page))
        event.wait()
        return memory.view(torch.float32)[:NUMEL]

    def fill(self) -> None:
        """Page p holds p + 1 everywhere; those that are not in a frame are on disk."""
        for page in range(self.pages):
            self.put(page, page + 1.0)

    def close(self) -> None:
        self.system.release()
        self.store.close()
        self.plane.close()


class Worker:
    """A thread with pages of its own, which it opens in any way, and a column of all pages that are shared."""

    def __init__(self, rig: Rig, number: int, seed: int, own: list[int], shared: list[int]) -> None:
        self._rig, self._random, self._own, self._shared = rig, random.Random(seed), own, shared
        self._columns = slice(number * COLUMNS, (number + 1) * COLUMNS)
        self._of_own: dict[int, torch.Tensor | None] = {page: torch.zeros(NUMEL) for page in own}
        self._of_shared = {page: torch.zeros(COLUMNS) for page in shared}
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for _ in range(MOVES):
                if self._own and (not self._shared or self._random.random() < 0.5):
                    self._use_own(self._random.choice(self._own))
                else:
                    self._use_shared(self._random.choice(self._shared))
        except BaseException as failure:  # noqa: BLE001 - raised again on the test's thread
            self.failure = failure

    def _use_own(self, page: int) -> None:
        opening, known = self._random.choice(list(Opening)), self._of_own[page]
        if self._random.random() < STRAIGHT:
            assert known is None or torch.equal(self._rig.read(page), known), f"page {page} is not what was written"
            return
        with self._rig.plane.opened(page, opening) as content:
            if opening is Opening.FILL:
                assert not bool(content.any()), f"page {page} is opened to be filled, but not empty"
                self._of_own[page] = content.normal_().clone()
                return
            assert known is None or torch.equal(content, known), f"page {page}: {content} instead of {known}"
            match opening:
                case Opening.CHANGE:
                    content[3:7] = self._random.random()
                    self._of_own[page] = content.clone()
                case Opening.CONSUME:
                    content.fill_(-7.0)
                    self._of_own[page] = None  # whatever it holds
                case _:
                    pass

    def _use_shared(self, page: int) -> None:
        opening, known = self._random.choice([Opening.READ, Opening.GLANCE, Opening.CHANGE]), self._of_shared[page]
        if self._random.random() < STRAIGHT:
            column = self._rig.read(page)[self._columns]
            assert torch.equal(column, known), f"page {page}: {column} instead of {known}"
            return
        with self._rig.plane.opened(page, opening) as content:
            column = content[self._columns]
            assert torch.equal(column, known), f"page {page}: {column} instead of {known}"
            if opening is Opening.CHANGE:
                column.fill_(self._random.random())
                self._of_shared[page] = column.clone()


def run_all(workers: list[Worker]) -> None:
    for worker in workers:
        worker.thread.start()
    for worker in workers:
        worker.thread.join(WATCHDOG_S)
        assert not worker.thread.is_alive(), "deadlock"


def announce(rig: Rig, seed: int) -> None:
    """An order that the threads keep to by chance only."""
    draw = random.Random(seed)
    openings = [opening for opening in Opening if draw.random() < 0.7] or [Opening.READ]
    visits = [
        Visit(draw.randrange(rig.pages), draw.choice(openings), reads=draw.random() < 0.8) for _ in range(2 * rig.pages)
    ]
    rig.plane.expect(visits, from_second_cycle=frozenset(draw.sample(openings, len(openings) // 2)))


@settings(max_examples=25)
@given(
    seed=SEEDS, frames=FRAMES, pages=st.integers(4, 14), policy=st.sampled_from(list(Policy)),
    jitter_s=st.sampled_from([0.0, 0.001, 0.003]), announced=st.booleans(), reads_straight=st.booleans(),
)  # fmt: skip
def test_paged_plane_under_threads_holds_what_was_written(
    seed: int, frames: int, pages: int, policy: Policy, jitter_s: float, announced: bool, reads_straight: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    system = FaultyDisk(jitter_s=jitter_s, seed=seed)
    rig = Rig(tmp_path_factory.mktemp("disk"), pages, frames, system, policy, reads_straight=reads_straight)
    try:
        if announced:
            announce(rig, seed)
        shared = list(range(pages // 2))
        own = [list(range(pages // 2, pages))[number::NUM_THREADS] for number in range(NUM_THREADS)]
        workers = [Worker(rig, number, seed + number, own[number], shared) for number in range(NUM_THREADS)]
        run_all(workers)
        for worker in workers:
            if worker.failure is not None:
                raise worker.failure
        assert len(rig.plane.memory) == frames
        assert rig.plane.num_bytes == frames * 4096
    finally:
        rig.close()


@settings(max_examples=25)
@given(
    seed=SEEDS, frames=FRAMES, pages=st.integers(8, 14), after=st.integers(0, 12), kind=st.sampled_from(FAULTS),
    announced=st.booleans(), reads_straight=st.booleans(),
)  # fmt: skip
def test_paged_plane_on_a_disk_that_fails_ends_every_opener_with_its_error_and_none_with_wrong_content(
    seed: int, frames: int, pages: int, after: int, kind: FaultKind, announced: bool, reads_straight: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    system = FaultyDisk(Fault(kind, after=after), jitter_s=0.001, seed=seed)
    rig = Rig(tmp_path_factory.mktemp("disk"), pages, frames, system, reads_straight=reads_straight)
    try:
        if announced:
            announce(rig, seed)
        own = [list(range(pages))[number::NUM_THREADS] for number in range(NUM_THREADS)]
        workers = [Worker(rig, number, seed + number, own[number], []) for number in range(NUM_THREADS)]
        run_all([worker for worker, pages_of in zip(workers, own, strict=True) if pages_of])
        failures = [worker.failure for worker in workers if worker.failure is not None]
        assert all(isinstance(failure, DiskCorrupt | DiskFailed) for failure in failures), failures
        if failures:
            for page in range(pages):
                with pytest.raises(EngineError):
                    rig.get(page)
    finally:
        rig.close()


def test_paged_plane_page_that_could_not_be_read_ahead_is_refused_to_all_who_ask_later(tmp_path: Path) -> None:
    """Nobody waited for the read: what its frame holds is not the page's content all the same."""
    rig = Rig(tmp_path, 8, 4, FaultyDisk())
    try:
        rig.fill()
        rig.store.drain()
        rig.system.faults.append(Fault(FaultKind.READ_ERROR, page=FIRST_PAGE))
        rig.plane.expect([Visit(page) for page in range(8)])
        with pytest.raises(DiskFailed):
            rig.store.drain()
        assert rig.plane.on_disk(0) is not DiskState.READING, "the read has ended"
        for _ in range(2):
            with pytest.raises(DiskFailed, match="page 3"):
                rig.get(0)
    finally:
        rig.close()


def test_paged_plane_full_disk_surfaces_and_the_page_in_ram_is_not_lost_silently(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 8, 4, FaultyDisk())
    try:
        rig.system.full_after = 0
        with pytest.raises(DiskFull):
            rig.fill()
        with pytest.raises(DiskFull):
            rig.get(7)
    finally:
        rig.close()


@pytest.fixture
def straight(tmp_path: Path) -> Iterator[Rig]:
    """Eight pages and four frames; the first four pages are on disk alone."""
    rig = Rig(tmp_path, 8, 4, FaultyDisk(), reads_straight=True)
    rig.fill()
    rig.store.drain()
    assert [page for page in range(8) if rig.plane.on_disk(page) is DiskState.ON_DISK] == [0, 1, 2, 3]
    yield rig
    rig.close()


def test_paged_plane_read_straight_takes_no_frame_and_drives_no_page_out(straight: Rig) -> None:
    before = [straight.plane.on_disk(page) for page in range(8)]
    assert [straight.read(page).tolist() for page in range(8)] == [[page + 1.0] * NUMEL for page in range(8)]
    straight.store.drain()
    assert [straight.plane.on_disk(page) for page in range(8)] == before


def test_paged_plane_read_straight_leaves_pages_in_ram_and_unfit_memory_to_who_opens_them(straight: Rig) -> None:
    whole = new_buffer(3 * 4096)
    assert straight.plane.read_straight(7, whole) is None, "in a frame"
    assert straight.plane.read_straight(0, whole[8:]) is None, "not on a sector's border"
    assert straight.plane.read_straight(0, whole[: 4096 - 4]) is None, "shorter than the sectors of the page"
    event = straight.plane.read_straight(0, whole[4096 : 2 * 4096])
    assert event is not None
    event.wait()
    assert whole.view(torch.float32)[1024 : 1024 + NUMEL].tolist() == [1.0] * NUMEL
    assert not bool(whole[:4096].any()) and not bool(whole[2 * 4096 :].any())


def test_paged_plane_that_is_read_straight_looks_ahead_only_for_what_is_opened_here(straight: Rig) -> None:
    straight.system.calls.clear()
    straight.plane.expect([Visit(0), Visit(1, Opening.CHANGE), Visit(2), Visit(3, Opening.CONSUME), Visit(7)])
    straight.store.drain()
    read = {page - FIRST_PAGE for way, page in straight.system.calls if way == "read"}
    assert read == {1, 3}


def test_paged_plane_read_straight_is_of_the_content_at_the_call_whatever_is_written_meanwhile(straight: Rig) -> None:
    straight.system.hold()
    memory = new_buffer(NUMEL * 4)
    event = straight.plane.read_straight(0, memory)
    straight.plane.forget(7)  # a frame for page 0, which no write to the held disk has to empty
    straight.put(0, 50.0)
    straight.system.release()
    for page in (1, 2, 3, 7):  # drive it out again, behind the read
        straight.put(page, 60.0)
    straight.store.drain()
    assert event is not None
    event.wait()
    assert memory.view(torch.float32)[:NUMEL].tolist() == [1.0] * NUMEL
    assert straight.get(0) == [50.0] * NUMEL


def test_paged_plane_read_straight_that_fails_is_told_to_who_waits_and_to_all_who_ask_later(straight: Rig) -> None:
    straight.system.faults.append(Fault(FaultKind.READ_ERROR, page=FIRST_PAGE, times=1))
    event = straight.plane.read_straight(0, new_buffer(NUMEL * 4))
    assert event is not None
    for ask in (event.wait, lambda: straight.read(0), lambda: straight.read(1), lambda: straight.get(7)):
        with pytest.raises(DiskFailed, match="page 3"):
            ask()
