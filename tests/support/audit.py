"""`python -m tests.support.audit [--strict]`: known vulnerabilities of every pinned package, Python's and the UI's.

Exit code: 0 none known, or nobody answered (which it says, and which --strict makes a 2); 1 some are known.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LIMIT_S = 60
_PYTHON = [
    "-m", "pip_audit", "-r", "constraints.txt", "--no-deps", "--disable-pip", "--timeout", "5",
    "--progress-spinner", "off", "--format", "json",
]  # fmt: skip
_UI = ["frontend/build_hook.py", "npm", "audit", "--json"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Audited:
    """What one service said."""

    what: str
    packages: int = 0
    known: list[str] = field(default_factory=list[str])
    unanswered: str = ""
    """Why nothing can be said of some or all packages; empty where all were looked at."""

    def line(self) -> str:
        """One line for people."""
        if self.unanswered and not self.packages:
            return f"{self.what}: not audited: {self.unanswered}"
        found = f"{len(self.known)} known vulnerabilities" if self.known else "no known vulnerability"
        rest = f"; not audited: {self.unanswered}" if self.unanswered else ""
        return f"{self.what}: {found} in {self.packages} packages{rest}" + "".join(f"\n  {one}" for one in self.known)


def python_verdict(text: str) -> Audited:
    """What pip-audit's JSON says. It calls a package that it can't look up no vulnerability."""
    try:
        found: list[dict[str, Any]] = json.loads(text)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Audited(what="Python", unanswered="no answer from PyPI's vulnerability service")
    looked_at = [one for one in found if "skip_reason" not in one]
    known = [
        f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for one in looked_at
        for hole in one["vulns"]
    ]
    missing = len(found) - len(looked_at)
    why = f"no answer from PyPI's vulnerability service for {missing} of {len(found)} packages" if missing else ""
    return Audited(what="Python", packages=len(looked_at), known=known, unanswered=why)


def ui_verdict(text: str) -> Audited:
    """What npm's JSON says."""
    try:
        found: dict[str, Any] = json.loads(text)
        packages, holes = found["metadata"]["dependencies"]["total"], found["vulnerabilities"]
    except (ValueError, KeyError, TypeError):
        return Audited(what="UI", unanswered="no answer from npm's advisory service")
    return Audited(what="UI", packages=packages, known=[f"{name}: {hole['severity']}" for name, hole in holes.items()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask both, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.audit", description="Ask for known vulnerabilities.")
    parser.add_argument("--strict", action="store_true", help="exit with 2 where a service does not answer")
    strict = parser.parse_args(arguments).strict
    verdicts = [python_verdict(_said(_PYTHON)), ui_verdict(_said(_UI))]
    for verdict in verdicts:
        print(f"audit: {verdict.line()}")
    if any(verdict.known for verdict in verdicts):
        return 1
    return 2 if strict and any(verdict.unanswered for verdict in verdicts) else 0


def _said(command: list[str]) -> str:
    """What a tool writes to standard output, before anything that is no JSON."""
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout[done.stdout.find("{") :]


if __name__ == "__main__":
    raise SystemExit(main())
