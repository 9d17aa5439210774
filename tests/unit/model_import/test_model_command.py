import json
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file
from typer.main import get_command
from typer.testing import CliRunner

from horizon_app.cli.main import app
from tests.support.small_model import write_small_model
from tests.support.tiny_gguf import tiny_llama, write_gguf

runner = CliRunner()

SURFACE = {
    "inspect": ["folder", "--json"],
    "convert": ["source", "out", "--dtype", "--json"],
}
"""Every verb with its arguments and options: scripts rely on these. Add freely, take away never."""


def test_model_commands_are_exactly_the_frozen_ones() -> None:
    verbs = getattr(getattr(get_command(app), "commands")["model"], "commands")  # noqa: B009
    assert {name: ["/".join(option.opts) for option in verb.params] for name, verb in verbs.items()} == SURFACE


def test_convert_then_inspect_say_what_was_written_and_that_it_can_be_trained(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    done = runner.invoke(app, ["model", "convert", str(path), str(tmp_path / "out"), "--dtype", "fp32"])
    assert done.exit_code == 0, done.stderr
    assert "F32, without quantisation now" in done.stdout
    assert "equal those of the GGUF file: difference 0 standard deviations, 0.0001 allowed for fp32" in done.stdout
    seen = runner.invoke(app, ["model", "inspect", str(tmp_path / "out")])
    assert seen.exit_code == 0
    assert "LlamaForCausalLM" in seen.stdout
    assert "trainable     yes" in seen.stdout
    assert "model.layers.*.mlp" in seen.stdout


def test_convert_with_json_prints_one_object_and_nothing_else(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    done = runner.invoke(app, ["model", "convert", str(path), str(tmp_path / "out"), "--json"])
    body = json.loads(done.stdout)
    assert (body["architecture"], body["dtype"], body["tied"]) == ("LlamaForCausalLM", "bf16", True)
    assert body["difference"] <= body["tolerance"]


def test_convert_of_a_file_that_is_no_gguf_fails_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_text("not a model")
    done = runner.invoke(app, ["model", "convert", str(tmp_path / "m.gguf"), str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "m.gguf is not a GGUF file" in done.stderr
    assert not (tmp_path / "out").exists()


def test_inspect_with_json_tells_why_a_model_can_not_be_trained(tmp_path: Path) -> None:
    seen = runner.invoke(app, ["model", "inspect", str(write_small_model(tmp_path / "model")), "--json"])
    body = json.loads(seen.stdout)
    assert seen.exit_code == 0
    assert body["trainable"] is False
    assert "no weights" in body["obstacles"][0]


def test_inspect_of_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    seen = runner.invoke(app, ["model", "inspect", str(tmp_path / "nowhere")])
    assert seen.exit_code == 2
    assert "there is no folder" in seen.stderr


def test_inspect_reports_weights_that_are_no_numbers_as_a_problem(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    runner.invoke(app, ["model", "convert", str(path), str(tmp_path / "out"), "--dtype", "fp32"])
    stored = load_file(tmp_path / "out" / "model.safetensors")
    stored["model.embed_tokens.weight"][3] = float("nan")
    width = stored["model.embed_tokens.weight"].shape[1]
    save_file(stored, tmp_path / "out" / "model.safetensors")
    seen = runner.invoke(app, ["model", "inspect", str(tmp_path / "out")])
    assert seen.exit_code == 0
    assert (
        f"model.embed_tokens.weight holds {width} values that are not finite, the first (nan) at [3, 0]" in seen.stdout
    )
    as_json = runner.invoke(app, ["model", "inspect", str(tmp_path / "out"), "--json"])
    (found,) = json.loads(as_json.stdout)["nonfinite"]
    assert found == {"name": "model.embed_tokens.weight", "count": width, "first_index": [3, 0], "first": "nan"}


def test_convert_prints_its_own_lines_only_and_no_bars_of_libraries(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_llama())
    done = subprocess.run(
        [sys.executable, "-m", "horizon_app", "model", "convert", str(path), str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("horizon: ") for line in done.stderr.splitlines()), done.stderr
