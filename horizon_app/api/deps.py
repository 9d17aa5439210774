"""What routes are given."""

from typing import Annotated, cast

from fastapi import Depends, Header, Path
from pydantic import BeforeValidator
from starlette.requests import HTTPConnection, Request

from horizon_app.contracts.events import SERVER, WORKER
from horizon_app.contracts.ids import RUN_ID_PATTERN
from horizon_app.control.access import Access
from horizon_app.control.history import History
from horizon_app.control.workstation import Workstation


def _workstation(connection: HTTPConnection) -> Workstation:
    return connection.app.state.workstation


def _history(connection: HTTPConnection) -> History:
    return connection.app.state.workstation.history


def _access(connection: HTTPConnection) -> Access:
    return connection.app.state.access


def _who(
    request: Request,
    horizon_client: Annotated[
        str | None,
        Header(max_length=40, pattern=r"^[A-Za-z][A-Za-z0-9 ._-]*$", description="what the client is called"),
    ] = None,
) -> str:
    """Who asks, for a run's events; not proof of anything."""
    if horizon_client is not None and horizon_client.lower() not in (SERVER, WORKER):
        return horizon_client
    return "browser" if "sec-fetch-site" in request.headers or "origin" in request.headers else "api"


Station = Annotated[Workstation, Depends(_workstation)]
Past = Annotated[History, Depends(_history)]
Door = Annotated[Access, Depends(_access)]
Who = Annotated[str, Depends(_who)]
"""Who asks: browser, api, or what the client calls itself in the header `Horizon-Client`."""
MOST_NUMBER = 2**53
"""Of a step or a place in a stream: what every reader of JSON has exactly, and every database takes."""
RunIdPath = Annotated[str, Path(description="run id", json_schema_extra={"pattern": RUN_ID_PATTERN})]


def _split(value: object) -> object:
    """`?state=a,b` and `?state=a&state=b` mean the same."""
    if not isinstance(value, list):
        return value
    return [
        part for text in cast(list[object], value) for part in (text.split(",") if isinstance(text, str) else [text])
    ]


CommasToo = BeforeValidator(_split)
"""For a list in the query: commas between the values are as good as the name again."""
