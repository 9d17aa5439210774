"""Tells systemd how far the server is, where systemd started it as `Type=notify`."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send one state, for example READY=1; nothing where nobody listens (see sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A service manager that does not listen must not keep the server from starting or ending.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        channel.send(state.encode())
