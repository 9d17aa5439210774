"""A server of the standard library that answers on a thread of its own."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


@contextmanager
def served(server: Server) -> Generator[Server]:
    """It answers meanwhile, and is closed in the end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
