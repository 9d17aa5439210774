"""A run's spec, submitted again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_state import RunState
from horizon_app.control.errors import KeyReused, RunNotFound
from horizon_app.control.spec_changes import laid_over
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from horizon_app.store.runs import get_order
from tests.support.server import furnish_home, scripted_spec


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Workstation]:
    with Workstation(AppSettings(home=furnish_home(tmp_path / "home"))) as station:
        yield station


def test_clone_has_the_spec_as_sent_with_the_changes_and_names_its_source(station: Workstation) -> None:
    sent = {**scripted_spec(7), "name": "first", "tags": ["a"]}
    source = station.submit(sent)
    copy = station.clone(source.id, {"training.learning_rate": 1e-4, "offload.policy": "lru"}, name="second")
    assert copy.asked == {
        **sent, "name": "second", "training": {"optimizer_steps": 7, "learning_rate": 1e-4},
        "offload": {"policy": "lru"},
    }  # fmt: skip
    assert (copy.cloned_from, copy.state, copy.name, copy.tags) == (source.id, RunState.QUEUED, "second", ["a"])
    assert copy.id != source.id and station.run(source.id).asked == sent
    assert station.clone(source.id, {}, start=False).held


def test_clone_is_checked_like_a_new_spec(station: Workstation) -> None:
    source = station.submit(scripted_spec())
    for changes in ({"training.nonsense": 1}, {"model.path": "models/none"}, {"name.first": "x"}):
        with pytest.raises(SpecRefused):
            station.clone(source.id, changes)
    with pytest.raises(RunNotFound):
        station.clone("20260101-000000-abcdef", {})
    assert station.runs().total == 1


def test_clone_with_one_key_is_one_run_and_another_clone_with_it_is_refused(station: Workstation) -> None:
    source, other = station.submit(scripted_spec()), station.submit(scripted_spec())
    copy = station.clone(source.id, {"training.seed": 1}, key="k")
    assert station.clone(source.id, {"training.seed": 1}, key="k").id == copy.id
    for clone in (
        lambda: station.clone(source.id, {}, key="k"),
        lambda: station.clone(other.id, {"training.seed": 1}, key="k"),
    ):
        with pytest.raises(KeyReused):
            clone()


def test_client_clones_what_the_user_started_elsewhere_but_names_nothing_else_there(
    station: Workstation, tmp_path: Path
) -> None:
    elsewhere = furnish_home(tmp_path / "elsewhere")
    (elsewhere / "data" / "secret.txt").write_text("secret\n")
    (elsewhere / "data" / "eval.txt").write_text("eval\n")
    spec = scripted_spec()
    source = station.submit({**spec, "data": {**spec["data"], "eval_path": "data/eval.txt"}}, base_dir=elsewhere)
    copy = station.clone(source.id, {})
    with station.database.read() as tx:
        first, second = get_order(tx, source.id), get_order(tx, copy.id)
    assert first is not None and second is not None
    assert (second.model_dir, second.data_paths, second.base_dir) == (first.model_dir, first.data_paths, first.base_dir)
    with pytest.raises(SpecRefused, match="outside of the allowed folders"):
        station.clone(source.id, {"data.path": "data/secret.txt"})
    assert station.clone(source.id, {"data.path": "data/secret.txt"}, by_client=False).id


def test_client_does_not_clone_what_eval_data_of_the_user_has_become_a_link_to(
    station: Workstation, tmp_path: Path
) -> None:
    elsewhere = furnish_home(tmp_path / "elsewhere")
    (elsewhere / "data" / "eval.txt").write_text("eval\n")
    spec = scripted_spec()
    source = station.submit({**spec, "data": {**spec["data"], "eval_path": "data/eval.txt"}}, base_dir=elsewhere)
    (elsewhere / "data" / "eval.txt").unlink()
    (elsewhere / "data" / "eval.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(SpecRefused, match="outside of the allowed folders"):
        station.clone(source.id, {})


def test_laid_over_makes_sections_and_leaves_the_source_alone() -> None:
    spec = {"a": {"b": 1}, "empty": None}
    assert laid_over(spec, {"a.c": [2], "d.e.f": 3, "empty.x": 4, "a.b": None}) == {
        "a": {"b": None, "c": [2]}, "d": {"e": {"f": 3}}, "empty": {"x": 4},
    }  # fmt: skip
    assert spec == {"a": {"b": 1}, "empty": None}
    with pytest.raises(SpecRefused, match=r"a\.b has no keys"):
        laid_over(spec, {"a.b.c": 1})
