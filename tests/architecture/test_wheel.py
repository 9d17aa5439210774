"""The wheel holds all that an installed Horizon needs: code, the built UI, the migrations."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel built from this tree."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("horizon_app-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_built_ui(names: set[str]) -> None:
    built = {name for name in names if name.startswith("horizon_app/_ui/")}
    assert "horizon_app/_ui/index.html" in built
    assert {Path(name).suffix for name in built} >= {".js", ".css"}


def test_wheel_holds_every_migration(names: set[str]) -> None:
    migrations = {
        f"horizon_app/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "migrations").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "horizon_app/migrations/env.py" in migrations
    assert migrations <= names


def test_wheel_holds_every_module_and_nothing_but_the_package(names: set[str]) -> None:
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "horizon_app").rglob("*.py")
        if not {"_ui", "migrations"} & set(path.relative_to(ROOT / "horizon_app").parts)
    }
    assert modules <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"horizon_app"}
