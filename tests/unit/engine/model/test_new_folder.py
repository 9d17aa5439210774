"""A folder that appears whole or not at all, and never in the place of somebody else's things."""

import os
from pathlib import Path

import pytest

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.model.new_folder import appearing

NAMES = ["with space", "模型 目录", "-starts-with-dash", "quote ' and \" here", "new\nline", "#hash?query", "n" * 255]


@pytest.mark.parametrize("name", NAMES)
def test_folder_appears_under_any_legal_name(name: str, tmp_path: Path) -> None:
    target = tmp_path / "deeper" / name
    with appearing(target) as folder:
        (folder / "file").write_text("whole")
        assert not target.exists()
    assert (target / "file").read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_folder_whose_filling_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), appearing(tmp_path / "target") as folder:
        (folder / "file").write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_folder_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with appearing(tmp_path / "target"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o750


def test_folder_in_the_place_of_an_empty_one_is_there(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with appearing(tmp_path / "target") as folder:
        (folder / "file").touch()
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["file"]


def test_folder_of_somebody_else_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("full", "file", "link"):
        with pytest.raises(WeightsUnusable, match="there already"), appearing(tmp_path / name):
            raise AssertionError("refused before anything is done")
    assert (tmp_path / "full" / "mine").read_text() == (tmp_path / "file").read_text() == "mine"


def test_folder_that_somebody_fills_meanwhile_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnusable, match="holds other things"), appearing(tmp_path / "target"):
        (tmp_path / "target").mkdir()
        (tmp_path / "target" / "theirs").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["target", "theirs"]


def test_folder_of_our_own_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "old").touch()
    with appearing(tmp_path / "target", may_replace=lambda folder: (folder / "old").exists()) as folder:
        (folder / "new").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "target"]
