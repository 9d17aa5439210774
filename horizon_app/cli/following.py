"""Follows a run to its end, through the server or beside it, whichever there is; starts nothing."""

import asyncio
from collections.abc import Callable

from horizon_app.cli.local_server import find_horizon, server_refusals
from horizon_app.client import Frames, ServerUnreachable
from horizon_app.contracts.frames import Frame, SnapshotFrame
from horizon_app.contracts.run_view import RunDetail
from horizon_app.settings import AppSettings

_PATIENCE_S = 3.0
"""How long a server is waited for that has gone, before it is looked for anew: elsewhere, or none."""


def follow(settings: AppSettings, run_id: str, show: Callable[[Frame], None], *, after: int) -> RunDetail:
    """Hand over each event behind `after` once and in order until the run has ended; gives the run as it ended.

    A server that ends leaves the run running: it is then followed in the database, and through the next server where
    one comes up meanwhile. Raises CommandFailed, ControlError, StoreError.
    """
    while (server := find_horizon(settings)) is not None:
        frames = Frames(server.calls, run_id, after=after, patience_s=_PATIENCE_S)
        with server_refusals(), server, frames:
            try:
                for frame in frames:
                    if not isinstance(frame, SnapshotFrame):
                        show(frame)
                return server.calls.show(run_id)
            except ServerUnreachable:
                after = frames.seq or after
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station:
        return asyncio.run(station.supervise(run_id, show, after=after, start=False))
