"""Runs the server in this process: the port first, so that a taken one changes nothing, then everything else."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Generator

import psutil
import uvicorn

from horizon_app.api.app import create_app
from horizon_app.control.access import make_missing_token
from horizon_app.control.errors import PortTaken, ServerRunning
from horizon_app.control.server_file import find_server
from horizon_app.settings import AppSettings


def serve(
    settings: AppSettings,
    on_ready: Callable[[str], None] | None = None,
    on_token: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` is called with the address once requests are answered.

    `on_token` gets the token where the server needs one and it was made now: nothing else will ever tell it.

    Raises ServerRunning and PortTaken before anything is touched, StoreError for a database that can't be used.
    """
    other = find_server(settings.home)
    if other is not None:
        raise ServerRunning(home=str(settings.home), pid=other.pid, host=other.host, port=other.port)
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        os.environ.pop("HORIZON_TOKEN", None)  # no worker and no other child of ours needs to know it
        token = make_missing_token(settings)
        if token is not None and on_token is not None:
            on_token(token)
        bound = settings.model_copy(update={"port": listener.getsockname()[1]})
        asyncio.run(_serve(bound, listener, on_ready))


async def _serve(settings: AppSettings, listener: socket.socket, on_ready: Callable[[str], None] | None) -> None:
    app = create_app(settings)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", server_header=False, timeout_graceful_shutdown=3, ws_max_size=1 << 16,
        ws_ping_interval=20.0, ws_ping_timeout=20.0, ws_per_message_deflate=False,
    )  # fmt: skip
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    # The lifespan is entered here, so that what goes wrong in it is raised and not only logged.
    async with app.router.lifespan_context(app):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listening.wait()
        if on_ready is not None and server.started:
            on_ready(_address(settings))
        await serving


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's own handling ends the process before server.json is removed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, and say so."""
        try:
            await super().startup(sockets)
        finally:
            self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Nothing."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it: without, the body of a short answer waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if isinstance(error, PermissionError | socket.gaierror):
            raise
        raise PortTaken(host=host, port=port, holder=_holder(port)) from error
    return listener


def _holder(port: int) -> str:
    """Who listens on a port, where this user may know."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                if connection.pid is None:
                    return ""
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""


def _address(settings: AppSettings) -> str:
    host = "localhost" if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.host  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
