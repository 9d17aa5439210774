"""What a run of the benchmark is asked and told: options, standard output, raw figures for `--json`."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import Missing, run_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The command line."""

    rounds: int
    steps: int
    models: list[str]
    disk_folder: Path
    peers_folder: Path
    worker_settings_for_peers: bool
    ballast: bool
    ballast_leaves: int
    paging_sequences: int
    profile: bool
    facts: int
    fact_epochs: int
    history_home: Path | None
    history_runs: int
    history_points: int


@dataclass(kw_only=True, slots=True)
class Report:
    """Writes lines at once and keeps the raw figures by group."""

    raw: dict[str, Any] = field(default_factory=dict[str, Any])
    incomplete: list[str] = field(default_factory=list[str])
    """What of our own could not be measured: the benchmark then ends with an error."""

    def write(self, text: str) -> None:
        """Print, so that a long run shows where it is."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def save(self, path: Path) -> None:
        """Write the raw figures as JSON."""
        path.write_text(json.dumps(self.raw, indent=1) + "\n")


def machine_roofs(options: Options, report: Report) -> None:
    """Print and keep the machine's limits."""
    report.write("This machine's roofs\n")
    roofs: dict[str, Any] = {}
    for what in (["memory"], ["disk", str(options.disk_folder)]):
        answer = run_json([sys.executable, "-m", "tests.bench.roofs", *what])
        roofs.update({what[0]: answer.reason} if isinstance(answer, Missing) else answer)
    for name, value in roofs.items():
        report.write(f"  {name:<36} {value if isinstance(value, str) else format(value, '.5g')}\n")
    report.raw["roofs"] = roofs


def disk_roofs(folder: Path) -> dict[str, float]:
    """What the disk gives now; nothing where it can't be measured."""
    answer = run_json([sys.executable, "-m", "tests.bench.roofs", "disk", str(folder)])
    return {} if isinstance(answer, Missing) else answer
