"""What was a file at submission may be a link at the start: the worker opens what was checked, or nothing."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_horizon, write_spec
from tests.support.server import ServerProcess, furnish_home, scripted_spec

CANARY = "SECRET-CANARY"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose workers are the real ones around a fake engine."""
    home = furnish_home(tmp_path_factory.mktemp("swapped") / "home")
    (home / "data" / "eval.txt").write_text("once more\n")
    (home / "spill").mkdir()
    with ServerProcess(home, HORIZON_WORKER_MODULE="tests.support.fake_worker") as process:
        yield process


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What nobody may see: a folder that looks like a model, data and a place for data at once."""
    folder = furnish_home(tmp_path / "outside")
    for name in ("corpus.txt", "eval.txt", "config.json"):
        (folder / name).write_text(f'{{"model_type": "{CANARY}"}}\n')
    return folder


SPEC: dict[str, Any] = {
    **scripted_spec(2),
    "data": {"path": "data/corpus.txt", "eval_path": "data/eval.txt"},
    "offload": {"disk_path": "spill"}, "notes": "",
}  # fmt: skip
SWAPPED = {
    "models/tiny": "models/tiny", "models/tiny/config.json": "config.json", "data/corpus.txt": "corpus.txt",
    "data/eval.txt": "eval.txt", "spill": "data",
}  # fmt: skip
"""A path that was checked, and what a link in its place leads to."""


def held_run(server: ServerProcess, swap: Callable[[], None]) -> Any:
    """A run that was held while `swap` was done, once it has ended."""
    run_id = server.post("/runs", {"spec": SPEC, "start": False})["id"]
    swap()
    server.post(f"/runs/{run_id}/start")
    return server.wait_state(run_id, "failed", "finished")


@pytest.mark.parametrize("name", list(SWAPPED))
def test_path_that_becomes_a_link_while_the_run_waits_ends_it_before_anything_is_opened(
    name: str, server: ServerProcess, outside: Path, tmp_path: Path
) -> None:
    path, target = server.home / name, outside / SWAPPED[name]
    before = sorted(outside.rglob("*"))

    def swap() -> None:
        path.rename(tmp_path / "kept")
        path.symlink_to(target)

    try:
        run = held_run(server, swap)
    finally:
        path.unlink()
        shutil.move(tmp_path / "kept", path)
    assert (run["state"], run["step"], run["cause"]) == ("failed", 0, "exception")
    for words in (f"reading the data: {path} leads to {target} now", str(server.home), "HORIZON_FOLDERS"):
        assert words in run["reason"]
    run_dir = server.home / "runs" / run["id"]
    assert all(CANARY.encode() not in file.read_bytes() for file in run_dir.rglob("*") if file.is_file())
    assert CANARY not in json.dumps([run, server.all_events(run["id"])])
    assert sorted(outside.rglob("*")) == before


def test_path_that_becomes_a_link_to_another_place_inside_is_followed(server: ServerProcess) -> None:
    path, elsewhere = server.home / "data" / "eval.txt", server.home / "eval-moved.txt"

    def swap() -> None:
        path.rename(elsewhere)
        path.symlink_to(elsewhere)

    try:
        run = held_run(server, swap)
    finally:
        path.unlink()
        elsewhere.rename(path)
    assert (run["state"], run["step"]) == ("finished", 2), run["reason"]


def test_link_in_a_models_folder_that_leads_out_is_refused_when_the_run_is_submitted(
    server: ServerProcess, outside: Path
) -> None:
    link = server.home / "models" / "tiny" / "LICENSE"
    link.symlink_to(outside / "corpus.txt")
    try:
        answer = server.client.post("/runs", json={"spec": SPEC, "start": False})
    finally:
        link.unlink()
    assert answer.status_code == 422 and CANARY not in answer.text
    (problem,) = answer.json()["errors"]
    assert problem["field"] == "model.path" and f"{link} leads to {outside / 'corpus.txt'}" in problem["message"]


def test_links_of_the_user_stay_free_in_the_foreground(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 2})
    for name in ("model", "corpus.txt"):
        (tmp_path / "spec" / name).rename(tmp_path / name)
        (tmp_path / "spec" / name).symlink_to(tmp_path / name)
    (tmp_path / "model" / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    (tmp_path / "model" / "tokenizer.json").symlink_to(tmp_path / "tokenizer.json")
    done = run_horizon("run", spec, home=tmp_path / "home")
    assert done.exit_code == 0, done.stderr
