"""From a spec to a queued run, or to every problem at once."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_state import RunState
from horizon_app.control.errors import KeyReused, NotQueued, RunNotFound, RunNotLive
from horizon_app.control.launcher import order_document
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.workstation import Workstation
from horizon_app.planning.facts import MachineFacts
from horizon_app.settings import AppSettings
from horizon_app.store.runs import StoredOrder, get_order
from tests.support.server import furnish_home, scripted_spec


@pytest.fixture
def station(tmp_path: Path):
    with Workstation(AppSettings(home=furnish_home(tmp_path / "home"))) as station:
        yield station


def refusal(station: Workstation, **changes: Any) -> dict[str, str]:
    with pytest.raises(SpecRefused) as refused:
        station.submit({**scripted_spec(), **changes})
    assert station.runs().total == 0
    return {error.field: error.message for error in refused.value.errors}


def test_submit_queues_a_run_with_its_first_event(station: Workstation) -> None:
    run = station.submit({**scripted_spec(7), "tags": ["a"]})
    assert (run.state, run.name, run.total_steps, run.tags, run.last_seq) == (RunState.QUEUED, "tiny", 7, ["a"], 1)
    assert run.model.architecture == "LlamaForCausalLM" and run.model.parameters == 4
    assert run.spec["offload"]["param_block_size"] == "16MiB"
    assert [event.type for event in station.events(run.id)] == ["state"]


def test_submit_names_every_problem_of_paths_at_once(station: Workstation) -> None:
    found = refusal(station, model={"path": "models/none"}, data={"path": ["data/corpus.txt", "data/none.txt"]})
    assert found.keys() == {"model.path", "data.path.1"}


def test_submit_of_a_folder_that_is_no_model_says_what_is_missing(station: Workstation) -> None:
    assert "config.json" in refusal(station, model={"path": "data"})["model.path"]


def test_submit_for_a_card_that_is_not_there_is_refused(station: Workstation, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_card(_disk_dir: Path) -> MachineFacts:
        return MachineFacts(host_bytes=1 << 40, cuda_devices=0, disk_free_bytes=1 << 40)

    monkeypatch.setattr(station.machine, "facts", no_card)
    assert "no CUDA card" in refusal(station, offload={"device": "cuda:1"})["offload.device"]


def test_submit_with_the_same_key_gives_the_same_run(station: Workstation) -> None:
    first = station.submit(scripted_spec(), key="k")
    assert station.submit(scripted_spec(), key="k").id == first.id
    assert station.submit(scripted_spec(), key="other").id != first.id


@pytest.mark.parametrize("document", [{"nonsense": 1}, None, [], {**scripted_spec(), "name": "another"}])
def test_submit_of_another_spec_with_a_used_key_is_refused(station: Workstation, document: Any) -> None:
    first = station.submit(scripted_spec(), key="k")
    with pytest.raises(KeyReused, match=first.id):
        station.submit(document, key="k")
    assert station.runs().total == 1


def test_submit_keeps_the_spec_as_it_was_sent_beside_the_resolved_one(station: Workstation) -> None:
    document = {**scripted_spec(3), "offload": {"param_block_size": "8MiB"}}
    run = station.submit(document)
    assert run.asked == document
    assert run.spec["offload"]["prefetch_window"] == 3


def test_double_click_in_two_threads_makes_one_run(station: Workstation) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(station.submit(scripted_spec(), key="k").id)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1 == station.runs().total


@pytest.mark.parametrize(
    "name", ["a/b", "..", "x" * 200, "日本語", "🦙", "<script>", '"q"', "\u202erev", "Twin", "twin"]
)
def test_names_are_labels_that_can_be_given_changed_and_deleted(station: Workstation, name: str) -> None:
    run = station.submit({**scripted_spec(), "name": name}, start=False)
    assert run.name == name
    assert station.edit(run.id, name=name + "!"[: 200 - len(name)], tags=["t"], notes="n\nn").tags == ["t"]
    assert station.deletion.delete(run.id).freed_bytes == 0
    with pytest.raises(RunNotFound):
        station.run(run.id)


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "tab\tname", "x" * 201])
def test_names_that_can_not_be_shown_are_refused(station: Workstation, name: str) -> None:
    assert refusal(station, name=name).keys() == {"name"}
    run = station.submit(scripted_spec(), start=False)
    with pytest.raises(SpecRefused):
        station.edit(run.id, name=name)


def test_stop_and_start_of_a_run_that_is_over_are_refused(station: Workstation) -> None:
    run = station.submit(scripted_spec())
    assert station.stop(run.id).state is RunState.STOPPED
    with pytest.raises(RunNotLive):
        station.stop(run.id)
    with pytest.raises(NotQueued):
        station.queue.start(run.id, who="test")


def test_paths_from_the_command_line_are_relative_to_the_spec(station: Workstation, tmp_path: Path) -> None:
    other = furnish_home(tmp_path / "elsewhere")
    run = station.submit(scripted_spec(), base_dir=other)
    order = stored_order(station, run.id)
    assert order.model_dir == str((other / "models" / "tiny").resolve())
    assert json.dumps(order.data_paths) == json.dumps([str((other / "data" / "corpus.txt").resolve())])


def stored_order(station: Workstation, run_id: str) -> StoredOrder:
    with station.database.read() as tx:
        order = get_order(tx, run_id)
    assert order is not None
    return order


def test_disk_tier_lies_in_the_runs_own_folder_unless_told_otherwise(station: Workstation) -> None:
    run = station.submit(scripted_spec())
    order = stored_order(station, run.id)
    assert order.disk_dir is None
    folder = RunFolder(station.settings.runs_dir, run.id)
    folder.write_order(order_document(run.id, order, folder.path))
    assert json.loads((folder.path / "run.json").read_text())["disk_dir"] == str(folder.path)


def test_disk_folder_reaches_the_order_as_a_real_path(station: Workstation) -> None:
    home = station.settings.home
    (home / "spill").mkdir()
    (home / "data" / "link").symlink_to(home / "spill")
    run = station.submit({**scripted_spec(), "offload": {"disk_path": "data/link"}})
    order = stored_order(station, run.id)
    assert order.disk_dir == str((home / "spill").resolve())
    assert order_document(run.id, order, home / "runs" / run.id)["disk_dir"] == order.disk_dir


@pytest.mark.parametrize("path", ["..", "/tmp", "data/out", "nowhere", "data/corpus.txt", "a\0b"])
def test_disk_folder_outside_or_that_is_none_is_refused(station: Workstation, path: str) -> None:
    (station.settings.home / "data" / "out").symlink_to(station.settings.home.parent)
    assert refusal(station, offload={"disk_path": path}).keys() == {"offload.disk_path"}


def test_free_space_is_that_of_the_folder_that_the_spec_names(
    station: Workstation, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def nothing_free(disk_dir: Path) -> MachineFacts:
        asked.append(disk_dir)
        return MachineFacts(host_bytes=16, cuda_devices=0, disk_free_bytes=0)

    monkeypatch.setattr(station.machine, "facts", nothing_free)
    (station.settings.home / "spill").mkdir()
    assert refusal(station).keys() == {"offload.disk_path"}
    assert refusal(station, offload={"disk_path": "spill"}).keys() == {"offload.disk_path"}
    assert asked == [station.settings.runs_dir, (station.settings.home / "spill").resolve()]
