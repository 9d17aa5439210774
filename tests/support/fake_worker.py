"""`python -m tests.support.fake_worker RUN_DIR`: the whole real worker around fake data and a fake engine."""

import sys

from horizon_app.worker.__main__ import end_process, main
from tests.support.fake_engine import timed_builders

if __name__ == "__main__":
    end_process(main(sys.argv[1:], timed_builders()))
