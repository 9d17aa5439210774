"""The Python client: runs of a Horizon server from scripts and notebooks. It imports neither torch nor the server."""

from horizon_app.client.errors import (
    BadAnswer,
    Conflict,
    HorizonError,
    NotFound,
    OtherServer,
    OutOfDate,
    RequestRefused,
    RunFailed,
    ServerFailed,
    ServerUnreachable,
    SpecRefused,
    Unauthorized,
    WaitTimeout,
)
from horizon_app.client.frames import Frames
from horizon_app.client.horizon import Horizon
from horizon_app.client.run import Run
from horizon_app.client.runs import Runs
from horizon_app.client.series import Series

__all__ = [
    "BadAnswer",
    "Conflict",
    "Frames",
    "Horizon",
    "HorizonError",
    "NotFound",
    "OtherServer",
    "OutOfDate",
    "RequestRefused",
    "Run",
    "RunFailed",
    "Runs",
    "Series",
    "ServerFailed",
    "ServerUnreachable",
    "SpecRefused",
    "Unauthorized",
    "WaitTimeout",
]
