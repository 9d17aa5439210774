"""Schemathesis against a real server: requests made from the schema, and each answer checked."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.server import ServerProcess, furnish_home

_RUN_OF_THE_EXAMPLES = "20260131-120000-a1b2c3"
_LEFT_OUT = "positive_data_acceptance,unsupported_method"
"""A body may keep to the schema and yet name a file that is not there: that is a 422, and meant. And for other methods
than GET, `/runs/compare` is the address of a run of that name."""
_SLOW = "example"
"""Writes the starter model, with torch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fuzzed:
    """What came of it."""

    exit_code: int
    report: str

    @property
    def summary(self) -> str:
        """The end of the report."""
        return self.report[self.report.rfind("= SUMMARY =") :].partition("\n")[2].strip()


def fuzz(folder: Path, *, examples: int, phases: str, seed: int = 1, with_slow: bool = False) -> Fuzzed:
    """Fuzz every route of a server on a new home in `folder`, with so many examples for each."""
    home = furnish_home(folder / "home")
    # What the examples of the reference name is there, so that they do what they show.
    (home / "models" / "tiny").rename(home / "models" / "llama")
    (home / "models" / "tiny").symlink_to("llama")
    (home / "data" / "train.jsonl").write_text('{"text": "once upon a time"}\n' * 10)
    with ServerProcess(home) as server:
        run_id = server.submit(5)
        server.wait_state(run_id, "finished")
        schema = folder / "openapi.json"
        schema.write_text(server.client.get("/openapi.json").text.replace(_RUN_OF_THE_EXAMPLES, run_id))
        command = [sys.executable, "-m", "schemathesis.cli", "run", str(schema), "--url", server.url, "--no-color"]
        command += ["--max-examples", str(examples), "--phases", phases, "--seed", str(seed)]
        command += ["--exclude-checks", _LEFT_OUT]
        command += [] if with_slow else ["--exclude-operation-id", _SLOW]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        server.get("/healthz")
    return Fuzzed(exit_code=done.returncode, report=done.stdout + done.stderr)
