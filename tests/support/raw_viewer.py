"""A viewer that does to its socket what no client library would: no pongs, rubbish, an end without a word."""

import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


def split_frames(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Opcode and content of the whole frames of a server at the beginning of what was read, and the rest of it."""
    frames: list[tuple[int, bytes]] = []
    start = 0
    while len(data) >= start + 2:
        length, begin = data[start + 1] & 0x7F, start + 2
        if length >= 126:
            size = 2 if length == 126 else 8
            length, begin = int.from_bytes(data[begin : begin + size], "big"), begin + size
        if len(data) < begin + length:
            break
        frames.append((data[start] & 0x0F, data[begin : begin + length]))
        start = begin + length
    return frames, data[start:]


class RawViewer:
    """A WebSocket after its handshake."""

    def __init__(self, url: str, *, receive_bytes: int | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.ready = deque[tuple[int, bytes]]()
        """Frames that were read and not handed over."""
        self._begun = b""
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(20)
        self.socket.connect((parts.hostname, parts.port))
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        self.socket.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1) or b"\r\n\r\n"
        assert head.startswith(b"HTTP/1.1 101"), head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, opcode: int, content: bytes) -> None:
        """One whole frame, masked as a client's."""
        length = len(content)
        if length > 0xFFFF:
            sizes = b"\xff" + struct.pack(">Q", length)
        else:
            sizes = bytes([0x80 | length]) if length < 126 else b"\xfe" + struct.pack(">H", length)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))
        self.socket.sendall(bytes([0x80 | opcode]) + sizes + mask + masked)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Opcode and content of every frame until the server ends the connection."""
        while self.ready or self.take():
            while self.ready:
                yield self.ready.popleft()

    def take(self) -> bool:
        """Read once: what is whole then is `ready`. Whether the connection goes on."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            return False
        frames, self._begun = split_frames(self._begun + data)
        self.ready.extend(frames)
        return bool(data)

    def close_code(self) -> int | None:
        """Read on until the server closes; the code of its close frame, None where the connection just ends."""
        for opcode, content in self.frames():
            if opcode == CLOSE:
                return struct.unpack(">H", content[:2])[0]
        return None

    def vanish(self) -> None:
        """End the connection as a crash does: with a reset, without a close frame."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
