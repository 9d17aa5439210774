"""Sizes and names of files: what keeps the house readable. The lists of exceptions may only shrink."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 400
MAX_TEST_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

FILES_ALLOWED_LONGER: dict[str, int] = {}
FUNCTIONS_ALLOWED_LONGER: dict[str, int] = {}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
TOP_LEVEL = {
    "horizon_app",
    "frontend",
    "migrations",
    "tests",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
}
SOURCE_SUFFIXES = {".py", ".ts", ".svelte", ".js", ".mjs", ".css"}
GENERATED = {"frontend/src/api/schema.gen.ts"}


def tracked_files() -> list[str]:
    """Files that git knows, and new ones in the rooms; what else lies in the clone is the user's own."""
    known = _git_files("--cached")
    new = _git_files("--others", "--exclude-standard", "--", "horizon_app", "frontend", "migrations", "tests")
    return sorted(name for name in known | new if (ROOT / name).is_file())


def _git_files(*arguments: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *arguments], cwd=ROOT, capture_output=True, check=True)
    return set(listed.stdout.decode().split("\0")) - {""}


def sources() -> list[str]:
    return [name for name in tracked_files() if Path(name).suffix in SOURCE_SUFFIXES and name not in GENERATED]


def is_test(name: str) -> bool:
    return name.startswith("tests/") or ".test." in name


def long_functions(name: str) -> dict[str, int]:
    if name.startswith("migrations/versions/"):
        return {}  # a list of tables and columns, frozen once released
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    lengths = {
        f"{name}::{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return {key: lines for key, lines in lengths.items() if lines > MAX_FUNCTION_LINES}


def test_files_are_no_longer_than_the_limit() -> None:
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in sources()}
    too_long = {
        name: lines
        for name, lines in lengths.items()
        if lines > FILES_ALLOWED_LONGER.get(name, MAX_TEST_FILE_LINES if is_test(name) else MAX_FILE_LINES)
    }
    assert lengths, "no source files found"
    assert too_long == {}


def test_functions_are_no_longer_than_the_limit() -> None:
    found = {key: n for name in sources() if name.endswith(".py") for key, n in long_functions(name).items()}
    assert {key: n for key, n in found.items() if n > FUNCTIONS_ALLOWED_LONGER.get(key, MAX_FUNCTION_LINES)} == {}


def test_exceptions_are_still_needed() -> None:
    functions = {key for name in sources() if name.endswith(".py") for key in long_functions(name)}
    files = {name for name in sources() if len((ROOT / name).read_text(encoding="utf-8").splitlines()) > MAX_FILE_LINES}
    assert FUNCTIONS_ALLOWED_LONGER.keys() <= functions
    assert FILES_ALLOWED_LONGER.keys() <= files


def test_names_say_what_is_inside() -> None:
    code = [name for name in sources() if not name.endswith(".css")]
    parts = {(name, part) for name in code for part in (*Path(name).parent.parts, Path(name).stem)}
    assert {name for name, part in parts if part.lower() in FORBIDDEN_NAMES} == set()


def test_top_level_holds_only_what_is_listed() -> None:
    found = {name.split("/")[0] for name in tracked_files()}
    assert {name for name in found if not name.startswith(".")} - TOP_LEVEL == set()


@pytest.mark.parametrize("pattern", ["import *", "type: ignore\n"])
def test_sources_hold_no_shortcut(pattern: str) -> None:
    here = "tests/architecture/test_sizes_and_names.py"
    found = [n for n in sources() if n.endswith(".py") and n != here and pattern in (ROOT / n).read_text("utf-8")]
    assert found == []
