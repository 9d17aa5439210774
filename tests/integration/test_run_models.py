"""A run's model, used: measured and sampled while it trained, asked afterwards, and exported for others."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from horizon_app.contracts.events import MetricsRecorded, SampleGenerated
from tests.support.commands import ROOT
from tests.support.run_folders import read_journal
from tests.support.server import ServerProcess, wait_for
from tests.support.trained_home import (
    FACTS,
    SAVED,
    SLOTS,
    STEPS,
    TEMPLATE,
    TrainedHome,
    ask_transformers,
    horizon,
    try_horizon,
)

QUESTION, ANSWER = next(iter(FACTS.items()))
LONG: dict[str, Any] = {"prompt": "Where", "max_new_tokens": 480, "temperature": 5.0}
"""Wild enough never to meet a stop id soon, most of the time."""


@pytest.fixture(scope="module")
def server(trained_home: TrainedHome) -> Iterator[ServerProcess]:
    with ServerProcess(trained_home.home, OMP_NUM_THREADS="1") as running:
        running.client.timeout = httpx.Timeout(60)
        yield running


def asked(question: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], **more}


def test_run_measured_its_held_out_loss_and_showed_samples_on_the_way(trained_home: TrainedHome) -> None:
    events = read_journal(trained_home.run_dir)
    losses = {
        event.step: event.values["eval/loss"]
        for event in events
        if isinstance(event, MetricsRecorded) and "eval/loss" in event.values
    }
    assert list(losses) == [SAVED, STEPS]
    assert losses[STEPS] is not None
    assert losses[STEPS] < 0.1
    samples = [(e.step, e.prompt, e.text, e.ending) for e in events if isinstance(e, SampleGenerated)]
    assert samples[-1] == (STEPS, QUESTION, ANSWER, "stop")
    assert [step for step, *_ in samples] == [SAVED, STEPS]
    assert 0 < trained_home.outcome["peak"]["device_blocks"] <= SLOTS


def test_chat_from_a_pipe_answers_as_plain_transformers_with_the_checkpoint(trained_home: TrainedHome) -> None:
    found = horizon("chat", trained_home.run_id, "--json", home=trained_home.home, stdin=QUESTION + "\n")
    assert found["text"] == ANSWER == ask_transformers(trained_home.run_dir / "checkpoints" / str(STEPS), QUESTION)
    assert (found["id"], found["checkpoint"], found["ending"]) == (trained_home.run_id, STEPS, "stop")
    assert found["new_tokens"] == len(ANSWER)


def test_chat_in_a_terminal_goes_turn_by_turn(trained_home: TrainedHome) -> None:
    """In a real terminal, as somebody would use it: two questions, a reset, and Ctrl-D."""
    owner, terminal = pty.openpty()
    environment = {**os.environ, "HORIZON_HOME": str(trained_home.home), "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "horizon_app", "chat", trained_home.run_id],
        stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True,
    ) as process:  # fmt: skip
        os.write(owner, f"{QUESTION}\n/reset\nWhere is Dan?\n\x04".encode())
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ANSWER in shown
    assert "In Bonn." in shown
    os.close(owner)
    os.close(terminal)


def test_chat_with_a_checkpoint_that_is_not_there_names_those_that_are(trained_home: TrainedHome) -> None:
    done = try_horizon("chat", trained_home.run_id, "--checkpoint", "7", "-m", "hi", home=trained_home.home)
    assert done.returncode == 1
    assert f"no checkpoint of step 7; there are: {SAVED}, {STEPS}" in done.stderr


def test_generate_answers_over_rest_whole_and_token_by_token(server: ServerProcess, trained_home: TrainedHome) -> None:
    path = f"/runs/{trained_home.run_id}/generate"
    whole = server.post(path, asked(QUESTION))
    assert (whole["text"], whole["checkpoint"], whole["ending"]) == (ANSWER, STEPS, "stop")
    events: list[tuple[str, dict[str, Any]]] = []
    with server.client.stream("POST", path, json=asked(QUESTION, stream=True)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for block in answer.read().decode().split("\n\n")[:-1]:
            name, data = block.split("\n")
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert [name for name, _ in events] == ["text"] * (len(events) - 1) + ["done"]
    assert len(events) > 4
    assert "".join(data["text"] for name, data in events if name == "text") == ANSWER == events[-1][1]["text"]


def test_generate_with_a_seed_is_repeated_and_a_prompt_is_continued(
    server: ServerProcess, trained_home: TrainedHome
) -> None:
    path = f"/runs/{trained_home.run_id}/generate"
    body = {"prompt": "Where is ", "max_new_tokens": 12, "temperature": 2.0, "top_p": 0.95}
    drawn = [server.post(path, {**body, "seed": seed})["text"] for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 422, "give either prompt or messages"),
        (asked("a", prompt="b"), 422, "give either prompt or messages"),
        (asked("a", temperature=-1), 422, "temperature"),
        (asked("a", checkpoint=3), 404, "no checkpoint of step 3"),
        (asked("long " * 300), 422, "the model has 512 positions"),
        (asked("a", turns=2), 422, "turns"),
    ],
)
def test_generate_that_makes_no_sense_is_a_problem(
    body: dict[str, Any], status: int, says: str, server: ServerProcess, trained_home: TrainedHome
) -> None:
    answer = server.client.post(f"/runs/{trained_home.run_id}/generate", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert says in answer.text


def test_generate_of_a_client_that_leaves_is_cancelled_and_another_one_is_told_to_wait(
    server: ServerProcess, trained_home: TrainedHome
) -> None:
    """Without the cancel, the model would be busy to the end of the long answer, and the next client too."""
    path = f"/runs/{trained_home.run_id}/generate"
    refused: list[int] = []
    with server.client.stream("POST", path, json={**LONG, "stream": True}) as answer:
        next(answer.iter_lines())
        second = threading.Thread(
            target=lambda: refused.append(server.client.post(path, json=asked(QUESTION)).status_code)
        )
        second.start()
        second.join()
    assert refused in ([409], [200]), "busy, unless the wild answer has ended by itself"

    def answered() -> dict[str, Any] | None:
        again = server.client.post(path, json=asked(QUESTION))
        return again.json() if again.status_code == 200 else None

    assert wait_for(answered, "the model answers again")["text"] == ANSWER


def test_export_answers_as_the_run_with_plain_transformers(trained_home: TrainedHome, tmp_path: Path) -> None:
    target = tmp_path / "für andere" / "model"
    found = horizon("runs", "export", trained_home.run_id, "--model", target, "--json", home=trained_home.home)
    assert (found["path"], found["dtype"], found["checkpoint"]) == (str(target), "bf16", STEPS)
    assert found["loaded"]
    assert found["compared_tensors"] == 38
    assert found["bytes"] == sum(file["bytes"] for file in found["files"])
    assert {question: ask_transformers(target, question) for question in FACTS} == FACTS
    for name in ("chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        before = trained_home.run_dir / "checkpoints" / str(STEPS) / name
        assert (target / name).read_bytes() == before.read_bytes()
    again = try_horizon("runs", "export", trained_home.run_id, "--model", tmp_path, home=trained_home.home)
    assert again.returncode == 1
    assert f"{tmp_path} is there already and holds other things" in again.stderr


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--dtype", "int4"), 2, "--dtype: Input should be 'bf16', 'fp16', 'fp32' or 'q8_0'"),
        (("--dtype", "q8_0"), 2, "--dtype: safetensors is not written as q8_0; use bf16 or fp16 or fp32"),
        (("--format", "onnx"), 2, "--format: Input should be 'safetensors' or 'gguf'"),
        (("--shard-size", "many"), 2, "--shard-size: 'many' is not a size"),
        (("--checkpoint", "7"), 1, "no checkpoint of step 7"),
    ],
)
def test_export_asked_wrongly_names_the_option(
    options: tuple[str, ...], code: int, says: str, trained_home: TrainedHome, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    done = try_horizon("runs", "export", trained_home.run_id, "--model", target, *options, home=trained_home.home)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert not target.exists()


def test_export_over_rest_writes_gguf_into_an_allowed_folder(server: ServerProcess, trained_home: TrainedHome) -> None:
    body = {"path": "exports/quantised", "format": "gguf", "dtype": "q8_0"}
    found = server.post(f"/runs/{trained_home.run_id}/export", body)
    assert found["path"] == str(trained_home.home / "exports" / "quantised")
    (file,) = found["files"]
    assert (file["name"], found["loaded"]) == ("model-q8_0.gguf", True)
    options: dict[str, Any] = {"gguf_file": file["name"]}
    model: Any = AutoModelForCausalLM.from_pretrained(found["path"], **options)
    tokenizer: Any = AutoTokenizer.from_pretrained(found["path"], **options)
    assert tokenizer.chat_template == TEMPLATE
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**ids, max_new_tokens=len(ANSWER), do_sample=False)
    assert tokenizer.decode(made[0][ids["input_ids"].shape[1] :], skip_special_tokens=True) == ANSWER


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/etc/model", "outside of the allowed folders"),
        ("exports/../../model", "outside of the allowed folders"),
        ("runs/mine", "in the folder of the runs"),
        ("a\0b", "NUL"),
    ],
)
def test_export_over_rest_out_of_bounds_is_refused_by_field(
    path: str, says: str, server: ServerProcess, trained_home: TrainedHome
) -> None:
    answer = server.client.post(f"/runs/{trained_home.run_id}/export", json={"path": path})
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert (problem["field"], says in problem["message"]) == ("path", True), problem
