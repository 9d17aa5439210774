"""What lies in a run's folders, whatever links are there by now."""

from pathlib import Path
from typing import IO, Any

import pytest

from horizon_app.contracts.confinement import (
    LeadsOut,
    confined_to,
    open_confined,
    require_all_inside,
    require_inside,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    model = tmp_path / "home" / "model"
    (model / "templates").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "again").symlink_to("../model")  # a circle, which is looked through once
    (model / "blob").symlink_to("../blobs/1")  # as a hub's cache has them
    (tmp_path / "home" / "blobs").mkdir()
    (tmp_path / "home" / "blobs" / "1").write_text("{}")
    return tmp_path / "home"


@pytest.mark.parametrize("name", ["model", "model/blob", "model/again/config.json", "nothing"])
def test_path_inside_is_let_through(home: Path, name: str) -> None:
    require_inside(home / name, [home])
    require_all_inside(home / name, [home])


def test_path_that_became_a_link_is_refused_with_where_it_leads(home: Path, tmp_path: Path) -> None:
    (home / "data.txt").symlink_to("../outside/secret.txt")
    with pytest.raises(LeadsOut) as refused:
        require_inside(home / "data.txt", [home])
    assert (refused.value.path, refused.value.real) == (home / "data.txt", tmp_path / "outside" / "secret.txt")
    for words in (
        str(home / "data.txt"),
        f"leads to {tmp_path}/outside/secret.txt now",
        f"({home})",
        "HORIZON_FOLDERS",
    ):
        assert words in str(refused.value)
    require_inside(home / "data.txt", [home, tmp_path / "outside"])
    require_inside(home / "data.txt", None)


@pytest.mark.parametrize("link", ["model/config.json", "model/templates/x.jinja", "model/deep", "blobs/link"])
def test_link_anywhere_below_a_folder_that_leads_out_is_refused(home: Path, tmp_path: Path, link: str) -> None:
    (home / link).unlink(missing_ok=True)
    (home / link).symlink_to(tmp_path / "outside" / ("deep" if link == "model/deep" else "secret.txt"))
    (home / "model" / "blobs").symlink_to("../blobs")  # so that a link within a linked folder is found too
    with pytest.raises(LeadsOut, match=Path(link).name):
        require_all_inside(home / "model", [home])
    require_all_inside(home / "model", None)


def test_file_that_is_opened_through_a_link_has_to_lie_inside(home: Path) -> None:
    (home / "data.txt").symlink_to("../outside/secret.txt")
    with confined_to([home]):
        with open_confined(home / "model" / "blob") as file:
            assert file.read() == b"{}"
        with pytest.raises(LeadsOut, match=r"outside/secret\.txt now"):
            open_confined(home / "data.txt")
    with open_confined(home / "data.txt") as file:
        assert file.read() == b"secret", "whoever is not confined opens what the user may"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what a descriptor leads to")
def test_path_that_leads_out_only_while_it_is_opened_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = home / "data.txt", Path.open
    path.write_text("inside")

    def swapped(self: Path, mode: str) -> IO[Any]:
        kept = path.rename(home / "kept.txt")
        path.symlink_to("../outside/secret.txt")
        file = opened(self, mode)
        path.unlink()
        kept.rename(path)
        return file

    monkeypatch.setattr(Path, "open", swapped)
    with confined_to([home]), pytest.raises(LeadsOut):
        open_confined(path)
