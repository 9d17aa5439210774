"""Pages on disk: what is written comes back, in the order that is asked for, and nothing is left behind."""

import errno
import fcntl
import os
import random
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from horizon_app.engine.errors import DiskFailed
from horizon_app.engine.memory.disk_io import SECTOR
from horizon_app.engine.memory.disk_store import BufferUnfit, DiskEvent, DiskStore, new_buffer
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk

SIZES = (1, 4095, 4096, 4097, 100_000)
RAM_FOLDER = Path("/dev/shm")


@pytest.fixture(params=["disk", "ram"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on the disk, and one on a file system that is RAM."""
    if request.param == "disk":
        yield tmp_path
        return
    if not RAM_FOLDER.is_dir():
        pytest.skip("no file system in RAM")
    path = Path(tempfile.mkdtemp(dir=RAM_FOLDER))
    yield path
    shutil.rmtree(path)


def filled(num_bytes: int, seed: int) -> torch.Tensor:
    """A buffer with its own content for each seed, up to the last byte of its room."""
    buffer = new_buffer(num_bytes)
    buffer.copy_(torch.randint(0, 256, (buffer.numel(),), generator=torch.Generator().manual_seed(seed)))
    return buffer


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has to come."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.001)


@pytest.mark.parametrize("direct", [True, False])
def test_store_of_odd_sizes_gives_back_what_was_written_last(folder: Path, direct: bool) -> None:
    system = FaultyDisk(direct=direct)
    store = DiskStore(folder, SIZES, system=system)
    rooms = [-(-size // SECTOR) * SECTOR for size in SIZES]
    try:
        for seed in (0, 100):
            for page in range(len(SIZES)):
                store.write(page, filled(SIZES[page], seed + page))
            for page in range(len(SIZES)):
                into = new_buffer(SIZES[page])
                store.read(page, into).wait()
                assert torch.equal(into[: SIZES[page]], filled(SIZES[page], seed + page)[: SIZES[page]])
        store.drain()
        assert store.is_direct == bool(fcntl.fcntl(system.fd, fcntl.F_GETFL) & os.O_DIRECT)
        assert direct or not store.is_direct
        assert store.file_bytes == sum(rooms) + len(SIZES) * SECTOR
        assert store.bytes_read == store.bytes_written == 2 * store.file_bytes
        assert system.bytes_moved == 4 * store.file_bytes
        assert store.seconds_reading > 0 and store.seconds_writing > 0
    finally:
        store.close()


def test_store_through_the_page_cache_syncs_and_drops_each_page(tmp_path: Path) -> None:
    system = FaultyDisk(direct=False)
    store = DiskStore(tmp_path, [10_000], system=system)
    store.write(0, filled(10_000, 0)).wait()
    assert (system.num_syncs, system.dropped_bytes) == (1, store.file_bytes)
    store.read(0, new_buffer(10_000)).wait()
    store.close()
    assert system.dropped_bytes == 2 * store.file_bytes


class DirectInNameOnly(FaultyDisk):
    """Takes the flag, and refuses the transfers."""

    refuses = False

    def set_direct(self, fd: int, direct: bool) -> None:
        super().set_direct(fd, direct)
        self.refuses = direct

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        if self.refuses:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return super().pwritev(fd, buffers, offset)


def test_store_where_direct_transfers_are_refused_goes_through_the_page_cache(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, [5000], system=DirectInNameOnly())
    store.write(0, filled(5000, 3)).wait()
    into = new_buffer(5000)
    store.read(0, into).wait()
    store.close()
    assert store.is_direct is False
    assert torch.equal(into, filled(5000, 3))


@pytest.mark.parametrize("preallocates", [True, False])
def test_store_file_has_no_name_and_only_its_owner_may_use_it(folder: Path, preallocates: bool) -> None:
    system = FaultyDisk(preallocates=preallocates)
    store = DiskStore(folder / "made" / "by it", [1 << 20], system=system)
    facts = os.fstat(system.fd)
    assert list((folder / "made" / "by it").iterdir()) == []
    assert (facts.st_nlink, stat.S_IMODE(facts.st_mode), facts.st_size) == (0, 0o600, store.file_bytes)
    assert facts.st_blocks * 512 >= store.file_bytes or not preallocates
    store.close()
    store.close()
    assert system.closed


def test_store_whose_folder_vanishes_goes_on(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "gone", [5000])
    (tmp_path / "gone").rmdir()
    store.write(0, filled(5000, 1))
    into = new_buffer(5000)
    store.read(0, into).wait()
    store.close()
    assert torch.equal(into, filled(5000, 1))


def test_new_buffer_starts_at_a_sector_and_has_whole_sectors() -> None:
    for num_bytes, room in ((1, 4096), (4096, 4096), (4097, 8192), (16 << 20, 16 << 20)):
        buffer = new_buffer(num_bytes)
        assert (buffer.numel(), buffer.dtype, buffer.data_ptr() % SECTOR) == (room, torch.uint8, 0)


@pytest.mark.parametrize(
    "unfit",
    [
        new_buffer(8192)[:4096],
        new_buffer(16384)[1:8193],
        new_buffer(16384)[::2],
        new_buffer(32768).view(torch.float32),
        torch.empty(8192, dtype=torch.uint8, device="meta"),
    ],
    ids=["too small", "not at a sector", "with gaps", "other elements", "elsewhere"],
)
def test_store_asked_with_unfit_memory_refuses_at_once(tmp_path: Path, unfit: torch.Tensor) -> None:
    store = DiskStore(tmp_path, [8000])
    with pytest.raises(BufferUnfit, match="page 0 needs 8192 bytes"):
        store.read(0, unfit)
    store.drain()
    store.close()


def test_store_with_one_thread_serves_what_is_due_first_and_reads_before_writes(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096] * 6, io_threads=1, system=system)
    for page in range(6):
        store.write(page, filled(4096, page))
    store.drain()
    system.hold()
    system.calls.clear()
    store.read(0, new_buffer(4096))
    until(lambda: len(system.calls) == 1)
    store.write(1, filled(4096, 1), due=5)
    store.read(2, new_buffer(4096), due=5)
    store.read(3, new_buffer(4096), due=9)
    store.read(4, new_buffer(4096), due=5)
    store.write(5, filled(4096, 5), due=-1)
    system.release()
    store.drain()
    store.close()
    assert system.calls == [("read", 0), ("write", 5), ("read", 2), ("read", 4), ("write", 1), ("read", 3)]


def test_store_read_behind_a_late_write_of_its_page_makes_it_urgent_and_sees_it(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096] * 3, io_threads=1, system=system)
    store.write(0, filled(4096, 0))
    store.write(2, filled(4096, 0))
    store.drain()
    system.hold()
    system.calls.clear()
    store.read(0, new_buffer(4096))
    until(lambda: len(system.calls) == 1)
    into = new_buffer(4096)
    store.write(1, filled(4096, 7), due=100)
    store.read(2, new_buffer(4096), due=50)
    store.read(1, into, due=1)
    system.release()
    store.drain()
    store.close()
    assert system.calls == [("read", 0), ("write", 1), ("read", 1), ("read", 2)]
    assert torch.equal(into, filled(4096, 7))


def test_store_with_two_threads_moves_two_pages_at_once_but_never_one_page_twice(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096] * 2, io_threads=2, system=system)
    system.hold()
    store.write(0, filled(4096, 1))
    store.write(0, filled(4096, 2))
    store.write(1, filled(4096, 3))
    until(lambda: len(system.calls) == 2)
    assert sorted(system.calls) == [("write", 0), ("write", 1)]
    system.release()
    into = new_buffer(4096)
    store.read(0, into).wait()
    store.close()
    assert torch.equal(into, filled(4096, 2))


def test_event_calls_back_on_the_disk_thread_and_at_once_when_it_has_ended(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096] * 2, system=system)
    threads: list[str] = []
    follower: list[DiskEvent] = []

    def called() -> None:
        threads.append(threading.current_thread().name)
        if not follower:
            follower.append(store.write(1, filled(4096, 1)))

    system.hold()
    event = store.write(0, filled(4096, 0))
    event.on_done(called)
    assert not event.done()
    system.release()
    store.drain()
    assert event.done() and follower[0].done(), "draining includes what callbacks ask for"
    event.on_done(called)
    store.close()
    assert threads[0].startswith("disk-")
    assert threads[1:] == [threading.current_thread().name]


def test_store_with_a_failing_callback_tells_it_and_lives_on(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096], io_threads=1, system=system)

    def broken() -> None:
        raise ZeroDivisionError

    system.hold()
    store.write(0, filled(4096, 0)).on_done(broken)
    system.release()
    with pytest.raises(ZeroDivisionError):
        store.drain()
    store.read(0, new_buffer(4096)).wait()
    store.close()


def test_store_closed_with_requests_waiting_ends_them_all_and_its_threads(tmp_path: Path) -> None:
    system = FaultyDisk()
    store = DiskStore(tmp_path, [4096] * 2, io_threads=1, system=system)
    before = threading.active_count()
    system.hold()
    running = store.write(0, filled(4096, 0))
    until(lambda: len(system.calls) == 1)
    waiting = [store.write(1, filled(4096, 1)), store.read(0, new_buffer(4096))]
    closing = threading.Thread(target=store.close)
    closing.start()
    until(lambda: all(event.done() for event in waiting))
    system.release()
    closing.join()
    running.wait()
    late = store.read(0, new_buffer(4096))
    for event in (*waiting, late):
        with pytest.raises(DiskFailed, match="was closed before"):
            event.wait()
    store.drain()
    assert threading.active_count() == before - 1
    assert system.calls == [("write", 0)]


NUM_PAGES, NUM_USERS, REQUESTS_EACH = 24, 4, 60


def use_at_random(store: DiskStore, sizes: list[int], mine: list[int], seed: int) -> list[str]:
    """Write and read pages that nobody else uses, several at a time; answers what came back wrong."""
    choice = random.Random(seed)
    version: dict[int, int] = {}
    reads: list[tuple[DiskEvent, int, int, torch.Tensor]] = []
    wrong: list[str] = []

    def check(event: DiskEvent, page: int, expected: int, into: torch.Tensor) -> None:
        event.wait()
        if not torch.equal(into[: sizes[page]], filled(sizes[page], expected)[: sizes[page]]):
            wrong.append(f"page {page} is not version {expected}")

    for number in range(REQUESTS_EACH):
        page = choice.choice(mine)
        if page in version and choice.random() < 0.5:
            into = new_buffer(sizes[page])
            reads.append((store.read(page, into, due=choice.randrange(8)), page, version[page], into))
        else:
            version[page] = seed * 1000 + number
            store.write(page, filled(sizes[page], version[page]), due=choice.randrange(8))
        if len(reads) > 4:
            check(*reads.pop(choice.randrange(len(reads))))
    for read in reads:
        check(*read)
    return wrong


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("direct", [True, False])
def test_store_used_by_several_threads_in_any_order_gives_every_page_its_own_bytes(
    folder: Path, direct: bool, seed: int
) -> None:
    choice = random.Random(seed)
    sizes = [choice.randrange(1, 60_000) for _ in range(NUM_PAGES)]
    cuts = [
        Fault(kind, page=choice.randrange(NUM_PAGES), num_bytes=choice.randrange(SECTOR, 30_000))
        for kind in (FaultKind.SHORT_READ, FaultKind.SHORT_WRITE)
    ]
    system = FaultyDisk(*cuts, direct=direct, jitter_s=0.001, seed=seed)
    store = DiskStore(folder, sizes, io_threads=3, system=system)
    wrong: list[str] = []

    def user(number: int) -> None:
        wrong.extend(use_at_random(store, sizes, list(range(number, NUM_PAGES, NUM_USERS)), seed * NUM_USERS + number))

    users = [threading.Thread(target=user, args=(number,)) for number in range(NUM_USERS)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    store.drain()
    store.close()
    assert wrong == []
    assert len(system.calls) >= NUM_USERS * REQUESTS_EACH
