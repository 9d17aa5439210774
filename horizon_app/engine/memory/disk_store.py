"""The disk tier's store: pages of fixed sizes at fixed offsets of one file, read and written by threads of its own.

Each transfer is one call for [header | data]. What is read is checked against what was last written, so that a disk
that fails, fills up or lies ends a request with an error, never with wrong bytes.
"""

import mmap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from horizon_app.engine.errors import DiskCorrupt, DiskFailed, EngineError
from horizon_app.engine.memory.disk_file import DiskFile
from horizon_app.engine.memory.disk_io import OS_DISK, SECTOR, DiskSystem, round_up
from horizon_app.engine.memory.disk_page import check_page, fill_header
from horizon_app.engine.memory.disk_queue import DiskEvent, DiskQueue, DiskRequest
from horizon_app.engine.memory.host_memory import new_memory


class BufferUnfit(AssertionError):
    """Memory that the disk can't be asked to read or write: a fault of the engine, never of its user."""


def new_buffer(num_bytes: int) -> torch.Tensor:
    """Zeroed memory for a page of `num_bytes`, fit for O_DIRECT. Shape: [bytes, rounded up to whole sectors], uint8."""
    return new_memory(round_up(num_bytes), torch.uint8)


def bytes_on_disk(num_bytes: int) -> int:
    """Bytes of the file that a page of `num_bytes` takes: its header and whole sectors of data."""
    return SECTOR + round_up(num_bytes)


class DiskStore:
    """Pages on disk. Safe to use from several threads; requests end by themselves, whatever happens.

    `bytes_read` and `bytes_written` count what went well, headers included; `seconds_reading` and `seconds_writing` add
    up the time that threads spent in transfers, waiting for the disk.
    """

    def __init__(
        self, folder: Path, page_bytes: Sequence[int], *, io_threads: int = 2, system: DiskSystem = OS_DISK
    ) -> None:
        """Page i holds `page_bytes[i]` bytes. Raises DiskFull, DiskUnusable and DiskFailed."""
        self._page_bytes = tuple(page_bytes)
        self._offsets: list[int] = []
        self.file_bytes = 0
        for num_bytes in self._page_bytes:
            self._offsets.append(self.file_bytes)
            self.file_bytes += bytes_on_disk(num_bytes)
        self._file = DiskFile(folder, self.file_bytes, system)
        self.is_direct = self._file.is_direct
        # What the disk has to show; in RAM, so that a stale page is noticed. Each entry belongs to who has the page.
        self._generations = [0] * len(self._page_bytes)
        self._half_written = [False] * len(self._page_bytes)
        self.bytes_read = self.bytes_written = 0
        self.seconds_reading = self.seconds_writing = 0.0
        self._queue = DiskQueue()
        self._changed = threading.Condition()
        self._num_requests = self._num_open = 0
        self._failure: Exception | None = None
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, name=f"disk-{i}", daemon=True) for i in range(io_threads)]
        for thread in self._threads:
            thread.start()

    def read(self, page: int, into: torch.Tensor, *, due: int = 0) -> DiskEvent:
        """Read a page; the event ends when it is there and checked, and where it fails `into` may hold anything.

        `into` is uint8 memory with room for whole sectors, as `new_buffer` makes it, which nobody else uses meanwhile.
        The lowest `due` is served first. Raises BufferUnfit.
        """
        return self._ask(page, into, due, is_write=False)

    def write(self, page: int, source: torch.Tensor, *, due: int = 0) -> DiskEvent:
        """Write a page; `source` (as for `read`) must not change until the event ends.

        Where the write fails, `source` is still the only copy, and reading the page is refused until a write succeeds.
        """
        return self._ask(page, source, due, is_write=True)

    def drain(self) -> None:
        """Wait until no request is open, callbacks included. Raises what failed first since the last call."""
        with self._changed:
            while self._num_open:
                self._changed.wait()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def is_closed(self) -> bool:
        """Whether the file is gone."""
        return self._closed

    def close(self) -> None:
        """End the threads and give the file's room back; requests that have not begun fail. Not from a callback."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            abandoned = self._queue.clear()
            self._changed.notify_all()
        for request in abandoned:
            self._end(request, _closed_failure(request))
        for thread in self._threads:
            thread.join()
        self._file.close()

    def _ask(self, page: int, memory: torch.Tensor, due: int, *, is_write: bool) -> DiskEvent:
        room = self._room(page, memory)
        with self._changed:
            number = self._num_requests
            request = DiskRequest(page, is_write, room, due, number, DiskEvent())
            self._num_requests += 1
            self._num_open += 1
            if not self._closed:
                self._queue.put(request)
                self._changed.notify_all()
                return request.event
        self._end(request, _closed_failure(request))
        return request.event

    def takes(self, page: int, memory: torch.Tensor) -> bool:
        """Whether a page can be read into `memory`: contiguous bytes in RAM, on a sector's border and as long."""
        fits = memory.dtype == torch.uint8 and memory.is_contiguous() and memory.device.type == "cpu"
        return fits and memory.numel() >= round_up(self._page_bytes[page]) and memory.data_ptr() % SECTOR == 0

    def _room(self, page: int, memory: torch.Tensor) -> memoryview:
        needed = round_up(self._page_bytes[page])
        if not self.takes(page, memory):
            raise BufferUnfit(
                f"page {page} needs {needed} bytes of contiguous uint8 memory in RAM at a multiple of {SECTOR}, but "
                f"got {memory.numel()} elements of {memory.dtype} on {memory.device} at {memory.data_ptr():#x}"
            )
        return memory.view(-1).numpy().data[:needed]

    # -- on the threads

    def _serve(self) -> None:
        header = memoryview(mmap.mmap(-1, SECTOR))
        while (request := self._next()) is not None:
            self._do(request, header)
            del request  # it holds the caller's memory

    def _do(self, request: DiskRequest, header: memoryview) -> None:
        failure: Exception | None = None
        try:
            if request.is_write:
                self._write(request, header)
            else:
                self._read(request, header)
        except EngineError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the event; the thread lives on
            failure = DiskFailed(operation=_operation(request), page=request.page, reason=repr(error))
            failure.__cause__ = error
        with self._changed:
            self._queue.release(request)
            self._failure = self._failure or failure
            self._changed.notify_all()
        self._end(request, failure)

    def _next(self) -> DiskRequest | None:
        with self._changed:
            while not self._closed:
                if (request := self._queue.take()) is not None:
                    return request
                self._changed.wait()
        return None

    def _end(self, request: DiskRequest, failure: Exception | None) -> None:
        fault: Exception | None = None
        try:
            request.event.end(failure)
        except Exception as error:  # noqa: BLE001 - a callback's; told by `drain`, and the thread lives on
            fault = error
        with self._changed:
            self._failure = self._failure or fault
            self._num_open -= 1
            self._changed.notify_all()

    def _read(self, request: DiskRequest, header: memoryview) -> None:
        page = request.page
        generation = self._generations[page]
        if generation == 0:
            raise DiskCorrupt(page=page, expected="a page that was written", found="one that was never written")
        if self._half_written[page]:
            raise DiskCorrupt(page=page, expected=f"generation {generation}", found="what a failed write has left")
        start = time.perf_counter()
        self._file.read((header, request.room), self._offsets[page], page=page)
        seconds = time.perf_counter() - start
        check_page(header, page=page, generation=generation, data=request.room[: self._page_bytes[page]])
        with self._changed:
            self.bytes_read += SECTOR + len(request.room)
            self.seconds_reading += seconds

    def _write(self, request: DiskRequest, header: memoryview) -> None:
        page = request.page
        self._generations[page] += 1
        self._half_written[page] = True
        data = request.room[: self._page_bytes[page]]
        fill_header(header, page=page, generation=self._generations[page], data=data)
        start = time.perf_counter()
        self._file.write((header, request.room), self._offsets[page], page=page)
        seconds = time.perf_counter() - start
        self._half_written[page] = False
        with self._changed:
            self.bytes_written += SECTOR + len(request.room)
            self.seconds_writing += seconds


def _operation(request: DiskRequest) -> str:
    return "write" if request.is_write else "read"


def _closed_failure(request: DiskRequest) -> DiskFailed:
    return DiskFailed(operation=_operation(request), page=request.page, reason="the disk tier was closed before")
