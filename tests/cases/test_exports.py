"""Models that people could not save or use elsewhere: tied heads, odd companions, awkward names."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

from horizon_app.contracts.confinement import LeadsOut
from horizon_app.contracts.events import LogWritten
from horizon_app.contracts.export import ExportDtype, Exported, ExportFormat, ExportOrder
from horizon_app.control import exports
from horizon_app.control.errors import ExportFailed
from horizon_app.engine.errors import CheckpointUnusable
from horizon_app.engine.model.load_check import check
from horizon_app.worker import export as worker_export
from horizon_app.worker.parts import real_builders
from horizon_app.worker.session import Session
from horizon_app.worker.stop_request import StopRequest
from tests.support.commands import run_horizon
from tests.support.engines import engine_config, running
from tests.support.run_folders import read_journal
from tests.support.server import ServerProcess, furnish_home
from tests.support.tiny_models import RandomBatches
from tests.support.trained_home import horizon, write_chat_model

INPUTS = Path(__file__).parent / "inputs"
PAYLOADS: list[str] = json.loads((INPUTS / "E13" / "payloads.json").read_text())
CHATS = INPUTS / "_common" / "chat-12.jsonl"
HELD_OUT = [RandomBatches(sequences=2, vocabulary=260).batch(7)]


@pytest.fixture
def loads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have transformers load an export in this process: the one of its own takes seconds to import it."""

    def load(folder: Path, order: ExportOrder, *_: Any) -> tuple[bool, list[str]]:
        found = check(folder)
        assert (found["wrong"], found["finite"]) == ([], True)
        return True, []

    monkeypatch.setattr(worker_export, "_load", load)


def train_one_step(run_dir: Path, model: Path) -> Path:
    """A run of one optimizer step; gives its checkpoint."""
    spec = {
        "model": {"path": "model"}, "data": {"path": "data", "sequence_length": 64},
        "training": {"optimizer_steps": 1, "global_batch_size": 1},
        "precision": {"compute": "fp32"},
        "offload": {"device": "cpu", "param_block_size": "16KiB", "max_gpu_blocks": 4},
    }  # fmt: skip
    run_dir.mkdir()
    order = {
        "run_id": "r", "spec": spec, "model_dir": str(model), "data_paths": [str(CHATS)], "eval_paths": [],
        "cache_dir": str(run_dir / "cache"), "base_dir": str(run_dir), "disk_dir": str(run_dir),
    }  # fmt: skip
    (run_dir / "run.json").write_text(json.dumps(order))
    assert Session(run_dir, real_builders(), StopRequest()).run() == 0, read_journal(run_dir)[-1]
    return run_dir / "checkpoints" / "1"


def export(checkpoint: Path, target: Path, dtype: ExportDtype = ExportDtype.FP32) -> Exported:
    order = ExportOrder(
        source=str(checkpoint), target=str(target), format=ExportFormat.SAFETENSORS, dtype=dtype,
        shard_bytes=1 << 30, run_id="r", checkpoint=1,
    )  # fmt: skip
    return worker_export.export(order, lambda _: None)


def plain_loss(folder: Path) -> float:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    (batch,) = HELD_OUT
    with torch.no_grad():
        logits = model(
            input_ids=torch.from_numpy(batch.input_ids), position_ids=torch.from_numpy(batch.position_ids),
            use_cache=False,
        ).logits  # fmt: skip
    labels = torch.from_numpy(batch.labels)[:, 1:]
    return float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten(), ignore_index=-100))


@pytest.mark.usefixtures("loads_here")
@pytest.mark.parametrize(
    ("case", "tied"), [("tied", True), ("tied-stored-twice", True), ("untied", False), ("tie-flag-absent", False)]
)
def test_b01_export_of_a_tied_model_has_one_copy_and_the_flag_and_the_same_loss(
    case: str, tied: bool, tmp_path: Path
) -> None:
    checkpoint = train_one_step(tmp_path / "run", INPUTS / "B01" / case)
    export(checkpoint, tmp_path / "out")
    names = set(load_file(tmp_path / "out" / "model.safetensors"))
    assert ("lm_head.weight" in names) is not tied
    assert "model.embed_tokens.weight" in names
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is tied
    assert engine_config(checkpoint).model_dir == checkpoint
    with running(checkpoint) as engine:
        loss = engine.evaluate(HELD_OUT).loss
    assert plain_loss(tmp_path / "out") == pytest.approx(loss, abs=1e-6)


@pytest.mark.usefixtures("loads_here")
@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("bad-generation-config", "`temperature`: `do_sample` is not set to `True`"),
        ("broken-generation-config", "is not a valid JSON file"),
        ("template-in-own-file", ""),
        ("extra-files", ""),
    ],
)
def test_b14_export_has_all_files_and_the_template_byte_for_byte(case: str, told: str, tmp_path: Path) -> None:
    given = INPUTS / "B14" / case
    checkpoint = train_one_step(tmp_path / "run", given)
    warnings = [e.message for e in read_journal(tmp_path / "run") if isinstance(e, LogWritten) and e.level == "warning"]
    faults = [line for line in warnings if line.startswith("generation_config.json: ")]
    assert bool(faults) is bool(told), "told at the start of the run"
    assert not told or told in faults[0]
    export(checkpoint, tmp_path / "out", ExportDtype.BF16)
    for path in given.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.usefixtures("loads_here")
@pytest.mark.parametrize("name", json.loads((INPUTS / "D06" / "names.json").read_text()))
def test_d06_export_to_an_awkward_name_is_there(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    done = export(INPUTS / "D06" / "model", target)
    assert done.path == str(target)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
    before = load_file(INPUTS / "D06" / "model" / "model.safetensors")
    after = load_file(target / "model.safetensors")
    assert all(torch.equal(after[tensor], before[tensor]) for tensor in before)


@pytest.mark.slow
def test_d06_awkward_names_work_from_the_run_to_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one path, and twelve nested folders of 64 letters: model, data, and both exports lie below."""
    names: list[str] = json.loads((INPUTS / "D06" / "names.json").read_text())
    below = tmp_path.joinpath(*names, *["d" * 64] * 12)
    shutil.copytree(INPUTS / "D06" / "model", below / "model")
    shutil.copyfile(INPUTS / "D06" / "train.jsonl", below / "train.jsonl")
    spec = {
        "model": {"path": "model"}, "data": {"path": "train.jsonl", "sequence_length": 64},
        "training": {"optimizer_steps": 1, "global_batch_size": 1}, "offload": {"device": "cpu"},
    }  # fmt: skip
    (below / "spec.json").write_text(json.dumps(spec))
    home = tmp_path / "home 模型 '#?"
    run_id = horizon("run", below / "spec.json", "--json", home=home)["id"]
    by_hand = horizon("runs", "export", run_id, f"--model={below / '-out'}", "--json", home=home)
    assert (by_hand["path"], by_hand["loaded"]) == (str(below / "-out"), True)
    with ServerProcess(home, HORIZON_FOLDERS=str(below), OMP_NUM_THREADS="1") as server:
        server.client.timeout = 170  # it imports torch twice
        over_rest = server.post(f"/runs/{run_id}/export", {"path": str(below / "rest\nout"), "dtype": "fp32"})
    assert (over_rest["path"], over_rest["loaded"]) == (str(below / "rest\nout"), True)
    assert check(below / "rest\nout")["dtype"] == "torch.float32"


@pytest.mark.usefixtures("loads_here")
def test_export_of_experts_is_loaded_and_says_how_they_are_stored(tmp_path: Path) -> None:
    write_chat_model(tmp_path / "model")
    config = Qwen3MoeConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=264, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path / "model")
    (tmp_path / "checkpoint").mkdir()
    with running(tmp_path / "model") as engine:
        engine.snapshot().write(tmp_path / "checkpoint")
        loss = engine.evaluate(HELD_OUT).loss
    done = export(tmp_path / "checkpoint", tmp_path / "out")
    assert any("the experts of a layer are one tensor" in note for note in done.notes)
    assert plain_loss(tmp_path / "out") == pytest.approx(loss, abs=1e-5)


def test_export_into_an_own_export_replaces_it_and_into_a_changed_one_does_not(
    tmp_path: Path, loads_here: Callable[[], None]
) -> None:
    model, target = INPUTS / "D06" / "model", tmp_path / "out"
    export(model, target, ExportDtype.BF16)
    export(model, target, ExportDtype.FP32)
    assert check(target)["dtype"] == "torch.float32"
    (target / "notes.txt").write_text("mine")
    with pytest.raises(Exception, match="is there already and holds other things"):
        export(model, target, ExportDtype.BF16)
    assert (target / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("loads_here")
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_e13_export_whose_place_becomes_a_link_that_leads_out_leaves_nothing_there(when: str, tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "out").mkdir(parents=True)
    outside.mkdir()

    def swap(*_: str) -> None:
        if not (home / "out").is_symlink():
            (home / "out").rename(outside / "out")
            (home / "out").symlink_to(outside / "out")

    order = ExportOrder(
        source=str(INPUTS / "D06" / "model"), target=str(home / "out" / "model"), format=ExportFormat.SAFETENSORS,
        dtype=ExportDtype.BF16, shard_bytes=1 << 30, run_id="r", checkpoint=1, folders=[str(home)],
    )  # fmt: skip
    if when == "before":
        swap()
    with pytest.raises(LeadsOut, match=re.escape(f"leads to {outside / 'out'}")):
        worker_export.export(order, swap)
    assert list((outside / "out").iterdir()) == []


def test_e13_export_of_a_checkpoint_that_holds_a_link_is_refused(tmp_path: Path) -> None:
    shutil.copytree(INPUTS / "D06" / "model", tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "notes.txt").symlink_to("/etc/hostname")
    with pytest.raises(CheckpointUnusable, match=r"notes\.txt is a link, to /etc/hostname"):
        export(tmp_path / "checkpoint", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def e13_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home on the folder of E13, with the secret beside it and a link that leads there; and a run with a model."""
    folder = tmp_path_factory.mktemp("E13")
    shutil.copytree(INPUTS / "E13" / "outside", folder / "outside")
    home = furnish_home(folder / "data")
    shutil.copy(INPUTS / "E13" / "data" / "ok.jsonl", home / "ok.jsonl")
    (home / "link.jsonl").symlink_to("../outside/secret.txt")
    with ServerProcess(home) as server:
        run_id = server.submit(2)
        server.wait_state(run_id, "finished")
    shutil.copytree(INPUTS / "D06" / "model", home / "runs" / run_id / "checkpoints" / "2")
    return home, run_id


@pytest.mark.usefixtures("loads_here")
@pytest.mark.parametrize("payload", [one for one in PAYLOADS if "\0" not in one])  # which no command line can hold
def test_e13_model_exported_to_an_odd_path_is_written_there_alone_or_refused_and_shows_nothing(
    payload: str, e13_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run_id = e13_run
    (home.parent / "user").mkdir(exist_ok=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home.parent / "user"))
    monkeypatch.setattr(exports, "_run", in_this_process)
    before = files_beside_runs(home.parent)
    done = run_horizon("runs", "export", run_id, "--model", payload, "--json", home=home)
    assert "SECRET-CANARY" not in done.output and "Traceback" not in done.output
    after = files_beside_runs(home.parent)
    assert {path: after.get(path) for path in before} == before, "whatever was there is as it was"
    made = after.keys() - before.keys()
    if done.exit_code != 0:
        assert not made and len(done.stderr.splitlines()) == 1, done.stderr
        return
    target = (home / Path(payload).expanduser()).resolve()
    assert json.loads(done.stdout)["path"] == str(target)
    assert made and all(path.is_relative_to(target) for path in made)
    assert target.is_relative_to(home.parent), "only the user's own home folder lies elsewhere"
    shutil.rmtree(target)


def in_this_process(order: ExportOrder, _log: Path, on_stage: Callable[[str], None]) -> Exported:
    """What the process that exports does and how its end is told: one of its own takes seconds to import torch."""
    said: list[Any] = []
    worker_export.main(order, said.append)
    for event in said[:-1]:
        on_stage(event.message)
    if isinstance(said[-1], Exported):
        return said[-1]
    raise ExportFailed(said[-1].message)


def files_beside_runs(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder but those of the runs and of the database."""
    files = (path for path in folder.rglob("*") if path.is_file() and "runs" not in path.parts)
    return {path: path.read_bytes() for path in files if not path.name.startswith(("horizon.db", "server"))}
