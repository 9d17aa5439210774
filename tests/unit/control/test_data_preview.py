"""The looks at data: what they find, what comes of one that fails, and that their process is kept for the next."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.control import look_process
from horizon_app.control.data_preview import DataLooks
from horizon_app.control.errors import DataRefused, PreviewFailed
from horizon_app.settings import AppSettings
from tests.support.commands import ROOT
from tests.support.run_folders import wait_until

ROW = '{"text": "a"}\n'
SPEC = DataSpec(path="x")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "data").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def looks(home: Path) -> Iterator[DataLooks]:
    made = DataLooks(AppSettings(home=home))
    yield made
    made.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_process, "MODULE", "tests.support.fake_data_look")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def place(home: Path, name: str) -> dict[str, str]:
    (home / "data" / name).write_text(ROW)
    return {"path": f"data/{name}"}


def test_look_of_a_client_is_confined_to_the_home_folder(home: Path, looks: DataLooks, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("CANARY")
    (home / "data" / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(DataRefused, match="leads out of the folder") as caught:
        looks.preview({"path": "data"}, None, most_samples=3)
    assert "CANARY" not in str(caught.value)


def test_problems_of_rows_become_problems_of_the_specs_field(looks: DataLooks, tmp_path: Path) -> None:
    path = tmp_path / "-odd name.jsonl"
    path.write_text(ROW + '{"text": 3}\n')
    (problem,) = looks.problems(SPEC, [path], tmp_path / "no model")[1:]
    assert (problem.field, problem.file, problem.line) == ("data.path", str(path), 2)


@pytest.mark.usefixtures("fake")
def test_looks_come_from_one_process_until_that_has_ended(home: Path, looks: DataLooks) -> None:
    numbers = [looks.preview(place(home, name), None, most_samples=1).format for name in ("a", "last", "c", "d")]
    assert numbers == ["1", "2", "1", "2"]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("name", "limit_s", "words"),
    [("dies", 60.0, "exit code 9.*no memory left"), ("hangs", 0.2, r"no answer within 0\.2 s")],
)
def test_look_that_fails_is_told_to_a_client_and_keeps_no_run_from_starting(
    name: str, limit_s: float, words: str, home: Path, looks: DataLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks.preview(place(home, "good"), None, most_samples=1).rows == 1
    with monkeypatch.context() as patch:
        patch.setattr(look_process, "LIMIT_S", limit_s)
        with pytest.raises(PreviewFailed, match=f"could not be looked at.*{words}"):
            looks.preview(place(home, name), None, most_samples=1)
        assert looks.problems(SPEC, [home / "data" / name], home) == []
    assert looks.preview(place(home, "good"), None, most_samples=1).rows == 1


@pytest.mark.usefixtures("fake")
def test_process_that_was_killed_between_two_looks_is_replaced(home: Path, looks: DataLooks) -> None:
    looks.preview(place(home, "a"), None, most_samples=1)
    (running,) = [process._running for process in looks._processes if process._running is not None]
    os.kill(running.process.pid, signal.SIGKILL)
    assert looks.preview(place(home, "b"), None, most_samples=1).format == "1"


@pytest.mark.usefixtures("fake")
def test_look_under_way_fails_and_leaves_no_process_when_the_server_ends(home: Path) -> None:
    looks = DataLooks(AppSettings(home=home))
    told: list[str] = []

    def look() -> None:
        with pytest.raises(PreviewFailed) as caught:
            looks.preview(place(home, "hangs"), None, most_samples=1)
        told.append(str(caught.value))

    thread = threading.Thread(target=look)
    thread.start()
    wait_until(lambda: any(one._running is not None for one in looks._processes), "the look has begun")
    (process,) = [one._running.process for one in looks._processes if one._running is not None]
    looks.close()
    thread.join()
    assert process.returncode == -signal.SIGKILL
    assert "could not be looked at" in told[0]


def test_process_of_a_look_with_a_tokenizer_does_without_torch(home: Path, looks: DataLooks) -> None:
    model = ROOT / "tests" / "cases" / "inputs" / "_common" / "tiny-llama"
    place(home, "a.jsonl")
    assert looks.problems(SPEC, [home / "data" / "a.jsonl"], model) == []
    (running,) = [process._running for process in looks._processes if process._running is not None]
    loaded = Path(f"/proc/{running.process.pid}/maps").read_text()
    assert "tokenizers" in loaded
    assert "libtorch" not in loaded
