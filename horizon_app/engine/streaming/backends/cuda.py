"""The CUDA backend: streams each way, events instead of synchronisation, pinned memory at its exact size.

Written against the same contract tests as the CPU backend; CONTRIBUTING.md says on which cards it has run.
"""

import logging
import queue
from collections.abc import Callable

import torch

from horizon_app.engine.memory.host_pool import HostSpan
from horizon_app.engine.streaming.backends.cpu import accumulate
from horizon_app.engine.streaming.backends.mover import Mover
from horizon_app.engine.streaming.backends.protocol import Event

_log = logging.getLogger(__name__)
STAGING_BUFFERS = 4
"""Pinned buffers for gradients on their way out: enough to keep the link busy while the host adds."""


class CudaEvent:
    """A CUDA event as the engine sees events."""

    __slots__ = ("_event",)

    def __init__(self, event: "torch.cuda.Event") -> None:
        self._event = event

    def done(self) -> bool:
        """Whether the device has reached it."""
        return bool(self._event.query())

    def wait(self) -> None:
        """Order the compute stream after it; the host does not block."""
        torch.cuda.current_stream().wait_event(self._event)

    def order(self, stream: "torch.cuda.Stream") -> None:
        """Order `stream` after it."""
        stream.wait_event(self._event)

    def block_host(self) -> None:
        """Block the calling thread until the device has reached it."""
        self._event.synchronize()


class CudaBackend:
    """Slots in device memory; weights in on one stream, gradients out on another, added by a host thread."""

    pins_host_memory = True
    shares_host_memory = False

    def __init__(self, device: torch.device) -> None:
        self.device = device
        torch.cuda.set_device(device)
        self._in = torch.cuda.Stream(device)
        self._out = torch.cuda.Stream(device)
        self._adder = Mover("horizon-gather-out")
        self._opener = Mover("horizon-copy-in")
        self._staging: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
        self._has_staging = False

    def new_arena(self, num_slots: int, block_numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory of the arena on the device, and the pinned buffers that its gradients leave through."""
        if not self._has_staging:  # an arena of another size needs no others
            self._has_staging = True
            for _ in range(STAGING_BUFFERS):
                self._staging.put(self._pinned(block_numel * torch.float32.itemsize))
        return torch.zeros(num_slots, block_numel, dtype=dtype, device=self.device)

    def copy_in(self, target: torch.Tensor, source: HostSpan, after: Event) -> Event:
        """Queue the copy on the inward stream, ordered after the last compute that read the slot.

        A source that may be on disk is opened by a thread, which keeps it open until the device has read it.
        """
        content = source.in_ram()
        if content is not None:
            return self._enqueue_copy(target, content, after)

        def copy() -> None:
            with source.opened(source.reading) as opened:
                self._enqueue_copy(target, opened, after).block_host()

        return self._opener.submit(copy)

    def _enqueue_copy(self, target: torch.Tensor, content: torch.Tensor, after: Event) -> CudaEvent:
        if isinstance(after, CudaEvent):
            after.order(self._in)
        with torch.cuda.stream(self._in):
            target[: content.numel()].copy_(content, non_blocking=True)
        return self._record(self._in)

    def gather_out(self, source: torch.Tensor, target: HostSpan, *, add: bool) -> Event:
        """Copy to a pinned buffer on the outward stream; the adder thread waits for it and adds."""
        self._out.wait_event(torch.cuda.current_stream().record_event())
        whole = self._staging.get()  # blocks the host while all buffers are full: bounds pinned memory
        buffer = whole[: source.numel() * source.element_size()].view(source.dtype).view(source.shape)
        with torch.cuda.stream(self._out):
            buffer.copy_(source, non_blocking=True)
            source.record_stream(self._out)
        copied = self._record(self._out)

        def add_on_host() -> None:
            copied.block_host()
            accumulate(buffer, target, add=add)
            self._staging.put(whole)

        return self._adder.submit(add_on_host)

    def after_gathers(self, work: Callable[[], None]) -> Event:
        """Queue `work` behind the additions."""
        return self._adder.submit(work)

    def compute_event(self) -> Event:
        """The compute issued so far on the current stream."""
        return self._record(torch.cuda.current_stream())

    def synchronize(self) -> None:
        """Block until device and adder are idle."""
        self._opener.wait_idle()
        torch.cuda.synchronize(self.device)
        self._adder.wait_idle()

    def close(self) -> None:
        """End the threads."""
        self._opener.close()
        self._adder.close()

    def _record(self, stream: "torch.cuda.Stream") -> CudaEvent:
        event = torch.cuda.Event()
        event.record(stream)
        return CudaEvent(event)

    def _pinned(self, num_bytes: int) -> torch.Tensor:
        try:
            return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
        except RuntimeError as failure:
            _log.warning("no pinned memory for a gradient of %d bytes, taking pageable: %s", num_bytes, failure)
            return torch.empty(num_bytes, dtype=torch.uint8)
