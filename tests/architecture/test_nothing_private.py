"""Nothing of the machine that a file was written on may stay in it."""

import re
from pathlib import Path

from tests.architecture.test_sizes_and_names import ROOT, tracked_files

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(
    "|".join(("/" + "work/", "/" + "root/", "/" + "home/[a-z]+/", "/" + "opt/(wheels|pypi)", "/" + "Users/"))
)
REGISTRY_HOSTS = re.compile(
    "|".join(("registry" + r"\.npmjs", "pythonhosted" + r"\.org", "artifact" + "ory", "--" + "(extra-)?index-url"))
)
BINARY = {".png", ".ico", ".woff2", ".bin", ".safetensors", ".gguf", ".gz"}


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:160]}"
        for name in tracked_files()
        if Path(name).suffix not in BINARY
        # Some inputs of the cases are in another encoding on purpose.
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_files_name_no_path_of_a_machine() -> None:
    assert lines_that_match(MACHINE_PATHS) == []


def test_files_name_no_registry() -> None:
    assert lines_that_match(REGISTRY_HOSTS) == []


def test_constraints_pin_every_package_to_one_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) is None] == []
    names = [re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins]
    assert sorted({name for name in names if names.count(name) > 1}) == []
