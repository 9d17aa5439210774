"""What routes are given."""

from typing import Annotated

from fastapi import Depends, Path
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
