"""What lies in a run's folders, whatever links are there by now."""

from pathlib import Path

import pytest

from horizon_app.contracts.confinement import LeadsOut, require_all_inside, require_inside


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
