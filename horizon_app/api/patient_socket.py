"""The server's end of a WebSocket: sends what was wrapped once for many viewers, and knows slow ones from dead ones."""

import contextlib
import fcntl
import struct
import termios
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State

WRAPPED = "horizon.wrapped"
"""Key of an ASGI message `websocket.send` that carries whole WebSocket messages, one or several, as they go out."""
_LAST_WORDS_S = 1.0


def wrap(content: str | bytes) -> bytes:
    """A text or binary message as it goes out: the same for all, since a server masks nothing and we don't compress."""
    if isinstance(content, str):
        return Frame(Opcode.TEXT, content.encode()).serialize(mask=False)
    return Frame(Opcode.BINARY, content).serialize(mask=False)


class PatientSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol with a short way out for what is wrapped, and another end to a ping that stays unanswered.

    The ping of a viewer on a slow line waits behind what it has not taken yet: while it takes something, it lives. One
    that takes nothing never gets the close frame either, so that closing politely would keep its connection for ever.
    """

    _took_some = False
    _waiting_bytes = 0

    async def send(self, message: Any) -> None:
        """Send an ASGI message, once the viewer has taken most of what waits. Raises ClientDisconnected."""
        wrapped: bytes | None = message.get(WRAPPED)
        if wrapped is None:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            raise ClientDisconnected
        self.transport.write(wrapped)

    def resume_writing(self) -> None:
        """The viewer has taken most of what waited here."""
        self._took_some = True
        super().resume_writing()

    def send_keepalive_ping(self) -> None:
        """Ask whether it lives."""
        super().send_keepalive_ping()
        self._begin_to_wait()

    def keepalive_timeout(self) -> None:
        """It has not answered in time."""
        if self.ping_timeout is not None and (self._took_some or self._count_waiting() < self._waiting_bytes):
            self._begin_to_wait()
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.loop.call_later(_LAST_WORDS_S, self.transport.abort)

    def _begin_to_wait(self) -> None:
        self._took_some, self._waiting_bytes = False, self._count_waiting()

    def _count_waiting(self) -> int:
        """Bytes that it has not taken: here, and in the kernel where that tells."""
        waiting = self.transport.get_write_buffer_size()
        with contextlib.suppress(OSError, ValueError):
            descriptor: int = self.transport.get_extra_info("socket").fileno()
            waiting += struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))[0]
        return waiting
