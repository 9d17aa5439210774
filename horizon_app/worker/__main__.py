"""`python -m horizon_app.worker RUN_DIR`: the process of one run."""

import faulthandler
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from horizon_app.logs import log_to_stderr
from horizon_app.settings import AppSettings
from horizon_app.worker.environment import prepare_process
from horizon_app.worker.parts import Builders, real_builders
from horizon_app.worker.stop_request import StopRequest


def main(arguments: list[str], builders: Builders | None = None) -> int:
    """Run the order in the folder that `arguments` names; gives the exit code of the process."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write("usage: python -m horizon_app.worker RUN_DIR (an existing folder with run.json)\n")
        return 2
    run_dir = Path(arguments[0]).resolve()
    stop = StopRequest()
    _stop_on_signals(stop)
    _log_to_file(run_dir / "worker.log")
    prepare_process()
    from horizon_app.worker.session import Session  # only once signals and the log are in place

    return Session(run_dir, builders or real_builders(), stop).run()


def _stop_on_signals(stop: StopRequest) -> None:
    def ask(number: int, _frame: FrameType | None) -> None:
        stop.ask(f"stopped by {signal.Signals(number).name}", save=True)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def _log_to_file(path: Path) -> None:
    """Send both output streams to a file, whatever started this process: a full pipe would block training."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(fd, sys.stdout.fileno())
    os.dup2(fd, sys.stderr.fileno())
    os.close(fd)
    faulthandler.enable()
    settings = AppSettings()
    log_to_stderr(settings.log_format, settings.log_level, run_id=path.parent.name)


def end_process(exit_code: int) -> None:
    """Leave at once with `exit_code`: threads that a library left behind, or its teardown, must not change it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
