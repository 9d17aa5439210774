"""Paths of a spec stay inside the allowed folders, whatever they are called and wherever links lead."""

import json
from pathlib import Path

import pytest

from horizon_app.control.paths import PathRefused, PathRules, rules_for_clients, rules_for_user
from horizon_app.settings import AppSettings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "ok.jsonl").write_text("{}")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SECRET-CANARY")
    (home / "data" / "link.jsonl").symlink_to(tmp_path / "outside" / "secret.txt")
    (home / "data" / "folder").symlink_to(tmp_path / "outside")
    (home / "data" / "inner.jsonl").symlink_to("ok.jsonl")
    (home / "data" / "circle").symlink_to("circle")
    return home


PAYLOADS = json.loads(
    r"""["../outside/secret.txt", "../../outside/secret.txt", "..%2foutside%2fsecret.txt", "%2e%2e/outside/secret.txt",
    "....//outside/secret.txt", "..\\outside\\secret.txt", "/etc/hostname", "file:///etc/hostname", "//etc/hostname",
    "data/link.jsonl", "data/folder/secret.txt",
    "data/ok.jsonl/../../../outside/secret.txt", "data/ok.jsonl\u0000.txt",
    "/proc/self/environ", "~/x", "\ud800", "C:\\x", "http://127.0.0.1:1/x", "\\\\host\\share", "data/circle",
    "..", "/"]"""
)


@pytest.mark.parametrize("payload", [*PAYLOADS, "x" * 5000])
def test_path_that_leads_outside_is_refused_without_its_content(home: Path, payload: str) -> None:
    with pytest.raises(PathRefused) as refused:
        rules_for_clients(AppSettings(home=home)).resolve(payload)
    assert "SECRET-CANARY" not in str(refused.value)
    assert refused.value.problem("data.path").fix


def test_refusal_outside_does_not_tell_whether_the_file_is_there(home: Path, tmp_path: Path) -> None:
    rules = rules_for_clients(AppSettings(home=home))
    answers: list[str] = []
    for name in ("secret.txt", "nothing.txt"):
        with pytest.raises(PathRefused) as refused:
            rules.resolve(f"{tmp_path}/outside/{name}")
        answers.append(str(refused.value).replace(name, ""))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", ["data/ok.jsonl", "data/inner.jsonl", "data/../data/ok.jsonl", "data"])
def test_path_inside_is_resolved(home: Path, name: str) -> None:
    found = rules_for_clients(AppSettings(home=home)).resolve(name)
    assert found == (home / name).resolve()


def test_path_in_an_allowed_folder_is_resolved_and_its_sibling_is_not(home: Path, tmp_path: Path) -> None:
    (tmp_path / "outside-2").mkdir()
    (tmp_path / "outside-2" / "a.txt").touch()
    rules = rules_for_clients(AppSettings(home=home, folders=(tmp_path / "outside",)))
    assert rules.resolve(str(tmp_path / "outside" / "secret.txt")).name == "secret.txt"
    assert rules.resolve("data/link.jsonl").name == "secret.txt"
    with pytest.raises(PathRefused):
        rules.resolve(str(tmp_path / "outside-2" / "a.txt"))


def test_home_that_is_itself_a_link_is_allowed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert rules_for_clients(AppSettings(home=tmp_path / "link")).resolve("data/ok.jsonl").exists()


def test_user_of_the_command_line_may_name_any_path(home: Path, tmp_path: Path) -> None:
    rules: PathRules = rules_for_user(home / "data")
    assert rules.resolve("ok.jsonl").exists()
    assert rules.resolve(str(tmp_path / "outside" / "secret.txt")).exists()
    with pytest.raises(PathRefused, match="is not there"):
        rules.resolve("nothing.txt")
