"""The README tells the truth: commands, make targets, spec, routes, settings and frame layout are as written."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.residency import HEADER_BYTES, MAGIC, MapId
from horizon_app.contracts.run_spec import spec_schema
from horizon_app.contracts.sizes import format_size
from horizon_app.contracts.spec_parse import parse_spec

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next one of the same level."""
    return README.split(f"\n{title}\n", 1)[1].split(f"\n{title.split()[0]} ", 1)[0]


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| (`.+?`.*?) \|", text, flags=re.MULTILINE)


def horizon_commands() -> list[str]:
    """Every `horizon …` of the code blocks and of the tables of commands, as verb and flags."""
    lines = [line for block in code_blocks(README + CONTRIBUTING, "sh") for line in block.splitlines()]
    cells = first_cells(section("## Commands"))
    return [line for line in [*lines, *re.findall(r"`([^`]+)`", " ".join(cells))] if line.startswith("horizon ")]


def verbs() -> dict[str, set[str]]:
    """Verb, with its sub-verb where it has one -> the flags that are used with it anywhere."""
    found: dict[str, set[str]] = {}
    for line in horizon_commands():
        words = line.split()
        depth = 2 if words[1] in {"runs", "model", "data", "db", "token"} else 1
        flags = found.setdefault(" ".join(words[1 : 1 + depth]), set())
        flags.update(re.findall(r"--[a-z][a-z-]*", line))
    return found


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_command_in_the_readme_exists_with_its_flags(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", *verb.split(), "--help"],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "PATH": "", "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert {flag for flag in verbs()[verb] if flag not in done.stdout} == set()


def test_every_make_target_in_the_documents_exists() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README + CONTRIBUTING, flags=re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named >= {"run", "test", "check", "bench", "clean"}
    assert named - targets == set()


def test_links_to_files_of_the_tree_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README + CONTRIBUTING)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_example_spec_of_the_readme_is_accepted() -> None:
    import yaml

    (text,) = code_blocks(README, "yaml")
    assert parse_spec(yaml.safe_load(text)).offload.max_gpu_blocks == 12


def test_example_data_of_the_readme_is_one_conversation_a_line() -> None:
    (text,) = code_blocks(README, "json")
    assert all([m["role"] for m in json.loads(line)["messages"]] == ["user", "assistant"] for line in text.splitlines())


def spec_fields() -> dict[str, dict[str, Any]]:
    """Dotted path of every field of the run spec -> its JSON schema."""
    schema = spec_schema()

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        return {**schema["$defs"][node["$ref"].split("/")[-1]], **node} if "$ref" in node else node

    def walk(node: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for key, child in node["properties"].items():
            inner = resolve(child)
            found |= walk(inner, f"{prefix}{key}.") if "properties" in inner else {f"{prefix}{key}": inner}
        return found

    return walk(schema, "")


def spec_row(path: str, field: dict[str, Any]) -> str:
    """The README's row of one field: key, default, words to choose from, meaning."""
    default = field.get("default")
    if field.get("x-unit") == "bytes" and isinstance(default, int):
        default = format_size(default)
    shown = default if isinstance(default, str) and default else json.dumps(default)
    later = [str(word) for word in field.get("x-unavailable", [])]
    words = ", ".join(f"`{word}`" for word in field.get("enum", []) if word not in later)
    refused = f"*not yet:* {', '.join(later)}" if later else ""
    default_cell = "required" if "default" not in field else f"`{shown}`"
    choice = "; ".join(part for part in (words, refused) if part)
    return f"| `{path}` | {default_cell} | {choice} | {field['description']} |"


def test_spec_table_says_what_the_spec_is() -> None:
    expected = [spec_row(path, field) for path, field in spec_fields().items()]
    written = [line for line in section("## Run spec").splitlines() if line.startswith("| `")]
    assert written == expected


def test_routes_of_the_readme_are_those_of_the_server() -> None:
    from horizon_app.api.app import create_app
    from horizon_app.settings import AppSettings

    schema = create_app(AppSettings()).openapi()
    served = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in schema["paths"].items()
        for method in methods
    }
    written = set(re.findall(r"^\| `([A-Z]+ [^`]+)`", section("## REST interface"), flags=re.MULTILINE))
    assert written == served


def test_environment_table_names_every_setting() -> None:
    from horizon_app.settings import AppSettings

    written = set(re.findall(r"^\| `(HORIZON_[A-Z_]+)`", section("## Environment"), flags=re.MULTILINE))
    prefix = AppSettings.model_config.get("env_prefix", "")
    assert written == {f"{prefix}{name}".upper() for name in AppSettings.model_fields}


def test_residency_layout_is_that_of_the_code() -> None:
    sizes = {"4 bytes": "4s", "u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|", section("## Stream"), flags=re.MULTILINE)
    offset = 0
    for written, kind, _ in rows:
        assert int(written) == offset
        offset += struct.calcsize(f"<{sizes[kind]}")
    assert offset == HEADER_BYTES
    assert MAGIC.decode() in rows[0][2]
    ids = re.findall(r"^\| [a-z ]+ \| (\d) \| 0 ", section("## Stream"), flags=re.MULTILINE)
    assert [int(number) for number in ids] == [member.value for member in MapId]


def test_unit_of_the_readme_is_understood_by_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    (unit,) = code_blocks(section("## Running it as a service"), "ini")
    (tmp_path / "horizon.service").write_text(unit.replace("%h/horizon/.venv/bin/horizon", f'"{sys.executable}"'))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(tmp_path / "horizon.service")],
        capture_output=True, text=True, check=False, env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    # An unknown key is only told, not refused.
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
