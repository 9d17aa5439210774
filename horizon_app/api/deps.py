"""What routes are given."""

from typing import Annotated, cast

from fastapi import Depends, Path
from pydantic import BeforeValidator
from starlette.requests import HTTPConnection

from horizon_app.contracts.ids import RUN_ID_PATTERN
from horizon_app.control.history import History
from horizon_app.control.workstation import Workstation


def _workstation(connection: HTTPConnection) -> Workstation:
    return connection.app.state.workstation


def _history(connection: HTTPConnection) -> History:
    return connection.app.state.workstation.history


Station = Annotated[Workstation, Depends(_workstation)]
Past = Annotated[History, Depends(_history)]
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
