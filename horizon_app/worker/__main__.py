"""`python -m horizon_app.worker RUN_DIR`: the process of one run."""

import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from horizon_app.logs import log_to_stderr
from horizon_app.settings import AppSettings
from horizon_app.worker.environment import prepare_process
from horizon_app.worker.log_file import LogFile
from horizon_app.worker.parts import Builders, real_builders
from horizon_app.worker.run_lock import RunTaken, take_run
from horizon_app.worker.stop_request import StopRequest


def main(arguments: list[str], builders: Builders | None = None) -> int:
    """Run the order in the folder that `arguments` names; gives the exit code of the process."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write("usage: python -m horizon_app.worker RUN_DIR (an existing folder with run.json)\n")
        return 2
    run_dir = Path(arguments[0]).resolve()
    stop = StopRequest()
    _stop_on_signals(stop)
    log_file = LogFile(run_dir / "worker.log")
    faulthandler.enable()
    settings = AppSettings()
    log_to_stderr(settings.log_format, settings.log_level, run_id=run_dir.name)
    try:
        take_run(run_dir)
    except RunTaken as error:
        logging.getLogger(__name__).error("%s", error)
        return 3
    prepare_process()
    from horizon_app.worker.session import Session  # only once signals and the log are in place

    session = Session(run_dir, builders or real_builders(), stop, each_beat=log_file.rotate_if_large)
    return session.run()


def _stop_on_signals(stop: StopRequest) -> None:
    def ask(number: int, _frame: FrameType | None) -> None:
        stop.ask(f"stopped by {signal.Signals(number).name}", save=True)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def end_process(exit_code: int) -> None:
    """Leave at once with `exit_code`: threads that a library left behind, or its teardown, must not change it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
