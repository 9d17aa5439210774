"""What goes wrong with a disk ends as a typed error with its numbers, never as wrong bytes."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.engine.errors import DiskCorrupt, DiskFailed, DiskFull, DiskUnusable, EngineError
from horizon_app.engine.memory.disk_io import SECTOR, StaysShort, move_all
from horizon_app.engine.memory.disk_store import DiskStore, new_buffer
from tests.support.faulty_disk import Fault, FaultKind, FaultyDisk

PAGE = 10_000  # in three sectors, behind one for the header
WHOLE = 4 * SECTOR
HEADER_BYTES = 48

OpenStore = Callable[..., DiskStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Stores of four pages in the test's own folder, closed at its end."""
    stores: list[DiskStore] = []

    def opened(system: FaultyDisk) -> DiskStore:
        stores.append(DiskStore(tmp_path, [PAGE] * 4, io_threads=1, system=system))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def content(seed: int) -> torch.Tensor:
    buffer = new_buffer(PAGE)
    buffer.copy_(torch.randint(0, 256, (buffer.numel(),), generator=torch.Generator().manual_seed(seed)))
    return buffer


def read(store: DiskStore, page: int) -> torch.Tensor:
    into = new_buffer(PAGE)
    store.read(page, into).wait()
    return into[:PAGE]


def holds(store: DiskStore, page: int, seed: int) -> bool:
    return torch.equal(read(store, page), content(seed)[:PAGE])


# -- at the start


def test_store_on_a_volume_with_too_little_room_is_refused_with_both_numbers(tmp_path: Path) -> None:
    system = FaultyDisk(free=WHOLE - 1)
    with pytest.raises(DiskFull, match=r"offload\.disk_path") as raised:
        DiskStore(tmp_path, [PAGE], system=system)
    assert (raised.value.needed_bytes, raised.value.free_bytes, raised.value.folder) == (WHOLE, WHOLE - 1, tmp_path)
    assert system.closed
    assert list(tmp_path.iterdir()) == []


class OutOfQuota(FaultyDisk):
    def preallocate(self, fd: int, num_bytes: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def test_store_beyond_a_quota_is_refused_and_says_so(tmp_path: Path) -> None:
    system = OutOfQuota(free=1 << 30)
    with pytest.raises(DiskFull, match="quota"):
        DiskStore(tmp_path, [PAGE], system=system)
    assert system.closed


def test_store_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DiskUnusable) as raised:
            DiskStore(folder, [PAGE])
        assert raised.value.folder == folder
    assert (tmp_path / "file").read_text() == "mine"


class ReadOnlyDisk(FaultyDisk):
    def open(self, path: Path, flags: int, mode: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_store_in_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiskUnusable, match=r"Read-only file system .*offload\.disk_path"):
        DiskStore(tmp_path, [PAGE], system=ReadOnlyDisk())


class NoUnlinking(FaultyDisk):
    def unlink(self, path: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_store_that_cant_take_its_files_name_away_is_refused_and_holds_no_descriptor(tmp_path: Path) -> None:
    system = NoUnlinking()
    with pytest.raises(DiskUnusable, match="Operation not permitted"):
        DiskStore(tmp_path, [PAGE], system=system)
    assert system.closed


class BadFirstSector(FaultyDisk):
    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_store_on_a_disk_that_fails_at_once_is_refused_and_holds_no_descriptor(tmp_path: Path) -> None:
    system = BadFirstSector()
    with pytest.raises(DiskFailed, match="could not reserve its file: Input/output error"):
        DiskStore(tmp_path, [PAGE], system=system)
    assert system.closed


# -- pages that are not what was written


def test_read_of_a_page_never_written_is_refused(open_store: OpenStore) -> None:
    system = FaultyDisk()
    store = open_store(system)
    with pytest.raises(DiskCorrupt, match="never written") as raised:
        read(store, 2)
    assert raised.value.page == 2
    assert system.calls == []


@pytest.mark.parametrize("direct", [True, False])
def test_read_of_a_page_with_a_flipped_bit_is_refused_whichever_bit_it_is(open_store: OpenStore, direct: bool) -> None:
    system = FaultyDisk(direct=direct)
    store = open_store(system)
    store.write(1, content(1)).wait()
    places = [*range(HEADER_BYTES), SECTOR, SECTOR + 1, SECTOR + PAGE // 2, SECTOR + PAGE - 1]
    for place in places:
        bit = place * 8 + place % 8
        system.flip_bit(1, bit)
        with pytest.raises(DiskCorrupt) as raised:
            read(store, 1)
        assert raised.value.page == 1
        assert raised.value.expected and raised.value.found
        system.flip_bit(1, bit)
    assert holds(store, 1, 1)


def test_read_of_a_page_with_a_flipped_bit_in_what_pads_it_is_right(open_store: OpenStore) -> None:
    system = FaultyDisk()
    store = open_store(system)
    store.write(1, content(1)).wait()
    for place in (HEADER_BYTES, SECTOR - 1, SECTOR + PAGE, WHOLE - 1):
        system.flip_bit(1, place * 8)
    assert holds(store, 1, 1)


def test_read_after_a_lost_write_is_refused_with_both_generations(open_store: OpenStore) -> None:
    store = open_store(FaultyDisk(Fault(FaultKind.LOST_WRITE, page=0, after=1, times=1)))
    store.write(0, content(1)).wait()
    store.write(0, content(2)).wait()
    with pytest.raises(DiskCorrupt) as raised:
        read(store, 0)
    assert (raised.value.expected, raised.value.found) == ("generation 2", "1")
    store.write(0, content(3)).wait()
    assert holds(store, 0, 3)


def test_read_after_the_first_write_was_lost_is_refused(open_store: OpenStore) -> None:
    store = open_store(FaultyDisk(Fault(FaultKind.LOST_WRITE)))
    store.write(3, content(1)).wait()
    with pytest.raises(DiskCorrupt, match="magic"):
        read(store, 3)


def test_read_of_a_page_written_to_another_ones_place_is_refused(open_store: OpenStore) -> None:
    system = FaultyDisk(direct=False)
    store = open_store(system)
    for page in (0, 1):
        store.write(page, content(page)).wait()
    os.pwrite(system.fd, os.pread(system.fd, WHOLE, 0), WHOLE)
    with pytest.raises(DiskCorrupt) as raised:
        read(store, 1)
    assert (raised.value.expected, raised.value.found) == ("page number 1", "0")
    assert holds(store, 0, 0)


# -- transfers that end early


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("num_bytes", [SECTOR, SECTOR + 1, WHOLE - 1])
def test_transfers_cut_short_every_time_go_on_until_all_is_moved(
    open_store: OpenStore, direct: bool, num_bytes: int
) -> None:
    cuts = [Fault(kind, num_bytes=num_bytes) for kind in (FaultKind.SHORT_READ, FaultKind.SHORT_WRITE)]
    store = open_store(FaultyDisk(*cuts, direct=direct))
    for page in (0, 1):
        store.write(page, content(page)).wait()
    assert holds(store, 0, 0) and holds(store, 1, 1)
    assert all(cut.happened >= 4 for cut in cuts)


@pytest.mark.parametrize("kind", [FaultKind.SHORT_READ, FaultKind.SHORT_WRITE])
def test_transfer_that_stays_short_is_refused_with_what_was_moved(open_store: OpenStore, kind: FaultKind) -> None:
    store = open_store(FaultyDisk(Fault(kind, page=0, num_bytes=1000)))
    store.write(1, content(1)).wait()
    with pytest.raises(DiskFailed, match="1,000 of 16,384 bytes were moved") as raised:
        store.write(0, content(0)).wait()
        read(store, 0)
    assert raised.value.page == 0
    assert holds(store, 1, 1)


def test_read_of_a_file_that_was_cut_off_is_refused(open_store: OpenStore) -> None:
    system = FaultyDisk()
    store = open_store(system)
    store.write(1, content(1)).wait()
    os.ftruncate(system.fd, WHOLE + 2 * SECTOR)
    with pytest.raises(DiskFailed, match="could not read page 1: 8,192 of 16,384 bytes"):
        read(store, 1)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.data())
def test_move_all_moves_every_byte_to_its_place_however_it_is_cut(sectors: list[int], data: st.DataObject) -> None:
    source = memoryview(os.urandom(sum(sectors) * SECTOR))
    target = bytearray(len(source))
    buffers, start = list[memoryview](), 0
    for count in sectors:
        buffers.append(source[start : start + count * SECTOR])
        start += count * SECTOR

    def write(fd: int, pieces: Sequence[memoryview], offset: int) -> int:
        assert offset % SECTOR == 0
        joined = b"".join(pieces)
        moved = data.draw(st.integers(min(SECTOR, len(joined)), len(joined)))
        target[offset - SECTOR : offset - SECTOR + moved] = joined[:moved]
        return moved

    move_all(write, -1, buffers, SECTOR)
    assert target == source


def test_move_all_gives_up_after_two_calls_in_vain() -> None:
    calls: list[int] = []

    def write(fd: int, pieces: Sequence[memoryview], offset: int) -> int:
        calls.append(offset)
        return (2 * SECTOR, 7, SECTOR, 0, 0)[len(calls) - 1]

    with pytest.raises(StaysShort):
        move_all(write, -1, [memoryview(bytes(8 * SECTOR))], 0)
    assert calls == [0, 2 * SECTOR, 2 * SECTOR, 3 * SECTOR, 3 * SECTOR]


# -- transfers that fail


def test_write_on_a_disk_that_fills_up_fails_and_all_other_pages_stay(open_store: OpenStore, tmp_path: Path) -> None:
    system = FaultyDisk(full_after=WHOLE + 2 * SECTOR)
    store = open_store(system)
    system.free = 123
    store.write(0, content(0)).wait()
    with pytest.raises(DiskFull) as raised:
        store.write(1, content(1)).wait()
    assert (raised.value.needed_bytes, raised.value.free_bytes, raised.value.folder) == (WHOLE, 123, tmp_path)
    with pytest.raises(DiskCorrupt, match="what a failed write has left"):
        read(store, 1)
    assert holds(store, 0, 0)
    system.full_after = None
    store.write(1, content(2)).wait()
    assert holds(store, 1, 2)


def test_write_over_a_page_that_fails_leaves_no_old_content_to_be_read(open_store: OpenStore) -> None:
    store = open_store(FaultyDisk(Fault(FaultKind.WRITE_ERROR, page=0, after=1, times=1)))
    store.write(0, content(1)).wait()
    with pytest.raises(DiskFailed, match="could not write page 0: Input/output error"):
        store.write(0, content(2)).wait()
    with pytest.raises(DiskCorrupt, match="expected generation 2"):
        read(store, 0)


def test_read_that_fails_once_is_right_the_next_time(open_store: OpenStore) -> None:
    store = open_store(FaultyDisk(Fault(FaultKind.READ_ERROR, page=0, times=1)))
    store.write(0, content(1)).wait()
    with pytest.raises(DiskFailed, match="could not read page 0: Input/output error") as raised:
        read(store, 0)
    assert (raised.value.operation, raised.value.page) == ("read", 0)
    assert holds(store, 0, 1)
    assert store.bytes_read == WHOLE


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EROFS, DiskUnusable),
        (errno.ESTALE, DiskUnusable),
        (errno.ENODEV, DiskUnusable),
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EIO, DiskFailed),
        (errno.ETIMEDOUT, DiskFailed),
    ],
)
def test_write_refused_by_the_system_raises_the_error_of_its_cause(
    open_store: OpenStore, number: int, kind: type[EngineError]
) -> None:
    store = open_store(FaultyDisk(Fault(FaultKind.WRITE_ERROR, errno=number)))
    event = store.write(0, content(0))
    for _ in range(2):
        with pytest.raises(kind) as raised:
            event.wait()
        assert isinstance(raised.value.__cause__, OSError)


class WriteBackFails(FaultyDisk):
    def sync(self, fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_write_through_the_page_cache_that_is_not_written_back_fails(open_store: OpenStore) -> None:
    store = open_store(WriteBackFails(direct=False))
    with pytest.raises(DiskFailed, match="could not write page 0"):
        store.write(0, content(0)).wait()


class FullOfBugs(FaultyDisk):
    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        if self.calls:
            raise ZeroDivisionError("a bug")
        return super().preadv(fd, buffers, offset)


def test_read_with_an_error_nobody_thought_of_fails_and_the_store_lives_on(open_store: OpenStore) -> None:
    store = open_store(FullOfBugs())
    store.write(0, content(0)).wait()
    with pytest.raises(DiskFailed, match="a bug"):
        read(store, 0)
    store.write(0, content(0)).wait()


def test_drain_tells_the_first_failure_once(open_store: OpenStore) -> None:
    system = FaultyDisk(Fault(FaultKind.WRITE_ERROR, page=1), Fault(FaultKind.WRITE_ERROR, page=2))
    store = open_store(system)
    for page in range(4):
        store.write(page, content(page))
    with pytest.raises(DiskFailed, match="page 1"):
        store.drain()
    store.drain()
    assert holds(store, 0, 0) and holds(store, 3, 3)
