import json
from pathlib import Path

import pytest

from horizon_app.contracts.problems import SpecRefused
from horizon_app.worker.order import DataPaths, OrderUnreadable, read_order
from tests.support.run_folders import make_run_folder


def test_order_when_whole_gives_spec_and_absolute_paths(tmp_path: Path) -> None:
    order = read_order(make_run_folder(tmp_path / "run", training={"optimizer_steps": 3}))
    assert order.spec.training.optimizer_steps == 3
    assert order.model_dir == tmp_path / "model"
    assert order.data_paths == DataPaths(train=(tmp_path / "corpus.txt",), cache_dir=tmp_path / "cache")
    assert order.disk_dir == tmp_path / "run"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"spec": {}, "model_dir": 3, "data_paths": []}'])
def test_order_of_another_shape_is_unreadable(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises((OrderUnreadable, SpecRefused)):
        read_order(tmp_path)


def test_order_with_an_unknown_key_in_its_spec_is_refused_by_name(tmp_path: Path) -> None:
    run_dir = make_run_folder(tmp_path / "run")
    content = json.loads((run_dir / "run.json").read_text())
    content["spec"]["trainig"] = {}
    (run_dir / "run.json").write_text(json.dumps(content))
    with pytest.raises(SpecRefused, match="trainig"):
        read_order(run_dir)
