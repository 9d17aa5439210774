"""The walls between the rooms, and what the server may not bring along."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "horizon_app"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {
    path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")
}
WITHOUT_TORCH = {"contracts", "logs", "settings", "planning", "store", "control", "api", "client"}
WITHOUT_WEB = {"contracts", "planning", "data", "engine", "worker"}


def contract(name: str) -> dict[str, Any]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return next(c for c in config["tool"]["importlinter"]["contracts"] if c["id"] == name)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)


def test_imports_of_the_package_keep_every_wall() -> None:
    done = python("import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "rooms"),
    [
        ("server-without-torch", WITHOUT_TORCH),
        ("no-web-below", WITHOUT_WEB),
        ("sql-in-store", ROOMS - {"store"}),
    ],
)
def test_wall_names_every_room_that_exists_and_must_keep_it(name: str, rooms: set[str]) -> None:
    guarded = {module.removeprefix("horizon_app.") for module in contract(name)["source_modules"]}
    assert guarded == rooms & ROOMS


@pytest.mark.parametrize("module", ["horizon_app.api.app", "horizon_app.cli.main", "horizon_app.contracts.run_spec"])
def test_import_of_the_server_leaves_torch_out(module: str) -> None:
    done = python(f"import {module}, sys; print(sorted(sys.modules.keys() & {{'torch', 'transformers', 'datasets'}}))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_words_need_pydantic_and_the_standard_library_only() -> None:
    done = python(
        "import importlib, json, pkgutil, sys, horizon_app.contracts as words\n"
        "for m in pkgutil.iter_modules(words.__path__): importlib.import_module(f'{words.__name__}.{m.name}')\n"
        "files = {name: getattr(m, '__file__', None) or '' for name, m in list(sys.modules.items())}\n"
        "print(json.dumps(sorted({n.split('.')[0] for n, file in files.items() if 'site-packages' in file})))"
    )
    assert done.returncode == 0, done.stderr
    third_party = {name for name in json.loads(done.stdout) if not name.startswith("_")}
    assert third_party <= {"pydantic", "pydantic_core", "typing_extensions", "annotated_types", "typing_inspection"}


def test_client_brings_contracts_httpx_and_websockets_and_nothing_else_of_ours() -> None:
    done = python(
        "import json, sys; from horizon_app.client import Horizon; print(json.dumps(sorted(sys.modules)))",
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    rooms = {name.split(".")[1] for name in loaded if name.startswith("horizon_app.")}
    assert rooms == {"client", "contracts"}
    assert {"torch", "transformers", "numpy", "pandas", "sqlalchemy", "fastapi", "yaml"} & set(loaded) == set()


def test_only_the_lifecycle_writes_a_runs_state() -> None:
    callers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\b(set_state|insert_run)\b", path.read_text(encoding="utf-8"))
    }
    assert callers == {"control/lifecycle.py", "store/runs.py"}
