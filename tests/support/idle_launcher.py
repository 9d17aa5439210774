"""A launcher that starts nothing."""

from horizon_app.control.launcher import Launcher
from horizon_app.settings import AppSettings
from horizon_app.store.runs import StoredOrder, StoredRun


class IdleLauncher(Launcher):
    """Remembers what it was to start; the process that it names has gone long ago."""

    def __init__(self) -> None:
        super().__init__(AppSettings())
        self.ids: list[str] = []

    def launch(self, run: StoredRun, order: StoredOrder) -> tuple[int, float]:
        self.ids.append(run.id)
        return 1, 1.0
