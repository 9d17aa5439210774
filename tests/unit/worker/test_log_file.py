"""What a worker prints lies in a file that does not grow without end."""

import subprocess
import sys
from pathlib import Path

from tests.support.commands import ROOT

PRINTS = """
import os, sys
from pathlib import Path
from horizon_app.worker.log_file import LogFile
log = LogFile(Path(sys.argv[1]), most_bytes=1000)
for number in range(100):
    os.write(1, b"%05d out %s\\n" % (number, b"x" * 50))
    os.write(2, b"%05d err\\n" % number)
    log.rotate_if_large()
"""


def test_log_that_has_grown_large_becomes_the_one_before_and_loses_no_line_of_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    done = subprocess.run(
        [sys.executable, "-c", PRINTS, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["worker.log", "worker.log.1"]
    newest = [*(tmp_path / "worker.log.1").read_text().splitlines(), *path.read_text().splitlines()]
    assert newest[-1] == "00099 err"
    numbers = [int(line[:5]) for line in newest if " out " in line]
    assert numbers == list(range(numbers[0], 100)) and len(numbers) > 14
    assert all(file.stat().st_size < 1100 for file in tmp_path.iterdir())
