"""The socket that the server accepts on: bound before anything else is touched, or refused in one line."""

import contextlib
import errno
import socket

import psutil

from horizon_app.control.errors import CannotListen, PortTaken

_BACKLOG = 128
_FIRST_FREE_PORT = 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on an address or the name of one; port 0 takes a free one. Raises PortTaken, CannotListen."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        cause = "this machine can't resolve that name; use an address, for example 127.0.0.1"
        raise CannotListen(host=host, port=port, cause=cause) from error
    # Where a name stands for both, version 4: that is what browsers and scripts on this machine try first.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: without, the body of a short answer waits 40 ms until its head is acknowledged.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host=host, port=port, holder=_holder(port)) from error
        raise CannotListen(host=host, port=port, cause=_cause(port, error)) from error
    return listener


def _cause(port: int, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM) and 0 < port < _FIRST_FREE_PORT:
        return f"ports below {_FIRST_FREE_PORT} need root; choose a higher one with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no interface of this machine has that address"
    return error.strerror or str(error)


def _holder(port: int) -> str:
    """Who listens on a port, where this user may know."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                if connection.pid is None:
                    return ""
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
