"""The server that runs on a home folder, through the Python client."""

from collections.abc import Generator
from contextlib import contextmanager

from horizon_app.cli.refusals import CommandFailed
from horizon_app.client import Horizon, HorizonError, RequestRefused, SpecRefused
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.control.errors import BadQuery
from horizon_app.control.server_file import find_server
from horizon_app.settings import AppSettings

_RETRY_FOR_S = 5.0
"""Somebody sits in front of it."""


def find_horizon(settings: AppSettings) -> Horizon | None:
    """The server of the home folder, where one runs now."""
    server = find_server(settings.home)
    if server is None:
        return None
    token = None if settings.token is None else settings.token.get_secret_value()
    return Horizon(server_url(server.host, server.port), token=token, name=COMMAND_LINE, retry_for=_RETRY_FOR_S)


@contextmanager
def server_refusals() -> Generator[None]:
    """Turn what the client raises into what a command may raise: the same as without a server."""
    try:
        yield
    except SpecRefused:
        raise
    except RequestRefused as error:
        if error.errors:
            raise BadQuery(field=error.errors[0].field, message=error.errors[0].message) from error
        raise CommandFailed(str(error)) from error
    except HorizonError as error:
        raise CommandFailed(str(error)) from error


def server_url(host: str, port: int) -> str:
    """Where a server that bound `host` is reached from this machine."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"
