"""Data as people bring it, in runs and over REST: refused before the start, or trained as it was shown."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from safetensors.torch import load_file
from starlette.testclient import TestClient

from horizon_app.api.app import create_app
from horizon_app.contracts.events import FactNoted, MetricsRecorded
from horizon_app.settings import AppSettings
from horizon_app.worker.parts import real_builders
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.support.run_folders import read_journal

pytestmark = pytest.mark.slow

INPUTS = Path(__file__).parent / "inputs"
TINY = INPUTS / "_common" / "tiny-llama"


def order(folder: Path, data: Path, model: Path = TINY, *, data_options: Any = None, **sections: Any) -> Path:
    """A run's folder with its order: fp32 on the CPU, two optimizer steps of a row each unless told otherwise."""
    spec: dict[str, Any] = {
        "model": {"path": "model"},
        "data": {"path": "data", "sequence_length": 512, **(data_options or {})},
        "training": {"optimizer_steps": 2, "global_batch_size": 1, "warmup_steps": 0, "schedule": "constant"},
        "precision": {"compute": "fp32"},
        "offload": {"device": "cpu", "param_block_size": "16KiB", "max_gpu_blocks": 8},
        "checkpoint": {"every": 0},
        **sections,
    }
    folder.mkdir(parents=True)
    content = {
        "run_id": "r", "spec": spec, "model_dir": str(model), "data_paths": [str(data)], "eval_paths": [],
        "cache_dir": str(folder.parent / "cache"), "base_dir": str(folder), "disk_dir": str(folder),
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(content))
    return folder


def train(run_dir: Path) -> tuple[list[float], dict[str, Any]]:
    """The loss of each step, and what the run noted of its data."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        code = Session(run_dir, real_builders(), StopRequest()).run()
    finally:
        torch.set_num_threads(threads)
    events = read_journal(run_dir)
    assert code == 0, events[-1]
    losses = [event.values["train/loss"] for event in events if isinstance(event, MetricsRecorded)]
    (noted,) = [event.data for event in events if isinstance(event, FactNoted) and event.kind == "data"]
    assert all(loss is not None for loss in losses)
    return [loss for loss in losses if loss is not None], noted


def samples_seen(run_dir: Path) -> float | None:
    events = read_journal(run_dir)
    return [event.values["train/samples"] for event in events if isinstance(event, MetricsRecorded)][-1]


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    (folder,) = (run_dir / "checkpoints").iterdir()
    return load_file(folder / "model.safetensors")


def test_row_without_a_trained_token_is_skipped_and_the_loss_stays_finite(tmp_path: Path) -> None:
    data = INPUTS / "A09" / "one_of_five_masked.jsonl"
    training = {"optimizer_steps": 5, "global_batch_size": 1}
    run = order(tmp_path / "run", data, data_options={"sequence_length": 64, "packing": False}, training=training)
    losses, noted = train(run)
    assert len(losses) == 5
    assert (noted["num_samples"], noted["skipped"]) == (5, 1)


@pytest.mark.parametrize(("name", "rows"), [("three_rows", 3), ("one_row", 1)])
def test_data_smaller_than_a_batch_makes_one_step_an_epoch_and_trains(name: str, rows: int, tmp_path: Path) -> None:
    training = {"epochs": 2, "global_batch_size": 32, "micro_batch_size": 8, "learning_rate": 1e-3}
    run = order(
        tmp_path / "run", INPUTS / "A10" / f"{name}.jsonl", data_options={"packing": False, "sequence_length": 96},
        training=training, accumulation={"policy": "fixed"},
    )  # fmt: skip
    losses, noted = train(run)
    assert len(losses) == json.loads((INPUTS / "A10" / "expected.json").read_text())["optimizer_steps"]
    assert (noted["num_samples"], samples_seen(run)) == (rows, 2 * rows)
    before, after = load_file(TINY / "model.safetensors"), weights(run)
    assert any(not torch.equal(before[name], after[name].to(before[name].dtype)) for name in before)


def test_packed_samples_do_not_see_each_other(tmp_path: Path) -> None:
    losses: list[float] = []
    for packing, batch in ((True, 1), (False, 4)):
        training = {"optimizer_steps": 1, "global_batch_size": batch, "learning_rate": 0.0}
        data = INPUTS / "A17" / "pack.jsonl"
        run = order(tmp_path / str(packing), data, data_options={"packing": packing}, training=training)
        loss, noted = train(run)
        assert noted["num_sequences"] == batch
        losses += loss
    assert abs(losses[0] - losses[1]) <= 1e-4


def test_last_step_of_an_epoch_takes_what_is_left_by_its_tokens(tmp_path: Path) -> None:
    found: list[tuple[list[float], dict[str, torch.Tensor]]] = []
    for micro in (1, 4):
        training = {
            "epochs": 2, "global_batch_size": 4, "micro_batch_size": micro, "learning_rate": 1e-3, "warmup_steps": 0,
            "schedule": "constant",
        }  # fmt: skip
        run = order(
            tmp_path / str(micro), INPUTS / "C04" / "seven.jsonl", training=training,
            data_options={"packing": False, "shuffle": False, "sequence_length": 256},
            accumulation={"policy": "fixed"},
        )  # fmt: skip
        found.append((train(run)[0], weights(run)))
    (losses, left), (other_losses, right) = found
    assert len(losses) == json.loads((INPUTS / "C04" / "expected.json").read_text())["optimizer_steps"]
    assert losses == pytest.approx(other_losses, rel=1e-5)
    assert samples_seen(run) == json.loads((INPUTS / "C04" / "expected.json").read_text())["samples_seen"]
    assert all(torch.allclose(left[name], right[name], rtol=1e-5, atol=1e-6) for name in left)


def test_runs_over_a_changed_file_note_unlike_fingerprints(tmp_path: Path) -> None:
    noted: list[str] = []
    for version in ("v1", "v2", "v1"):
        shutil.copyfile(INPUTS / "A21" / version / "train.jsonl", tmp_path / "train.jsonl")
        noted.append(train(order(tmp_path / f"run{len(noted)}", tmp_path / "train.jsonl"))[1]["fingerprint"])
    assert noted[0] == noted[2] != noted[1]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server that looks at data, with the inputs and an outside that may not be seen."""
    home = tmp_path_factory.mktemp("data-cases") / "home"
    shutil.copytree(INPUTS, home / "data")
    app: FastAPI = create_app(AppSettings(home=home, check_data=True))
    with TestClient(app, base_url="http://127.0.0.1:8321", raise_server_exceptions=False) as client:
        yield client


def look(client: TestClient, path: str, model: str | None = "_common/tiny-llama", **options: Any) -> Any:
    tokenizer = {} if model is None else {"tokenizer": f"data/{model}"}
    return client.get("/api/v1/datasets/preview", params={"path": f"data/{path}", **tokenizer, **options})


def test_preview_over_rest_shows_what_the_command_line_shows(client: TestClient) -> None:
    answer = look(client, "A15/multi.jsonl")
    assert answer.status_code == 200
    spans = [sample["trained_spans"] for sample in answer.json()["samples"]]
    assert spans[0] == ["four<|im_end|>", "six<|im_end|>", "eight<|im_end|>"]


def test_preview_over_rest_names_bad_lines_beside_the_good_rows(client: TestClient) -> None:
    answer = look(client, "A01/bad_lines_3_and_9.jsonl", model=None)
    assert answer.status_code == 200
    assert [error["line"] for error in answer.json()["errors"]] == [3, 9]
    assert answer.json()["rows"] == 10


@pytest.mark.parametrize(
    ("path", "model", "words"),
    [
        ("A16/system.jsonl", "A16/model-no-template", "chatml, llama3"),
        ("A19/cut.parquet", None, "cut.parquet"),
        ("A05/utf16.jsonl", None, "UTF-16"),
        ("../../secret.txt", None, "outside of the allowed folders"),
        ("A15/gone.jsonl", None, "is not there"),
    ],
)
def test_preview_over_rest_of_what_can_not_be_trained_is_a_problem(
    path: str, model: str | None, words: str, client: TestClient
) -> None:
    answer = look(client, path, model)
    assert answer.status_code == 422
    assert words in answer.text
    assert answer.json()["errors"][0]["fix"]


def start(client: TestClient, data: dict[str, Any], model: str = "data/_common/tiny-llama") -> Any:
    return client.post(
        "/api/v1/runs", json={"spec": {"model": {"path": model, "init": "random"}, "data": data}, "start": False}
    )


def test_run_over_data_that_trains_nothing_is_refused_before_it_starts(client: TestClient) -> None:
    answer = start(client, {"path": "data/A09/all_masked.jsonl", "sequence_length": 64})
    assert answer.status_code == 422
    assert "none of the 4 samples has a token to train on" in answer.json()["errors"][0]["message"]


def test_run_whose_template_refuses_a_row_is_refused_with_file_line_and_fix(client: TestClient) -> None:
    answer = start(client, {"path": "data/A16/system.jsonl"}, "data/A16/model-strict")
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["line"]) == (422, "data.path", 2)
    assert error["file"].endswith("system.jsonl")
    assert "this template has no system turn" in error["message"]


def test_run_over_good_data_is_accepted_after_the_look(client: TestClient) -> None:
    assert start(client, {"path": "data/A15/multi.jsonl"}).status_code == 201
