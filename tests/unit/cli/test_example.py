import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from horizon_app.cli.main import app
from horizon_app.contracts.spec_parse import parse_spec

runner = CliRunner()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "starter 中文"
    result = runner.invoke(app, ["example", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_example_has_exactly_its_frozen_surface() -> None:
    command = get_command(app).commands["example"]  # type: ignore[attr-defined]
    assert [option.name for option in command.params] == ["folder", "as_json"]


def test_example_writes_the_same_bytes_everywhere(example: Path, tmp_path: Path) -> None:
    assert runner.invoke(app, ["example", str(tmp_path / "again")]).exit_code == 0
    assert digests(tmp_path / "again") == digests(example)


def test_example_over_its_own_files_changes_nothing_and_completes_what_is_missing(example: Path) -> None:
    before = digests(example)
    (example / "model" / "tokenizer.json").unlink()
    (example / "notes.txt").write_text("mine")
    assert runner.invoke(app, ["example", str(example)]).exit_code == 0
    assert digests(example) == before | {"notes.txt": sha256(b"mine").hexdigest()}
    (example / "notes.txt").unlink()


def test_example_over_another_file_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("mine")
    result = runner.invoke(app, ["example", str(tmp_path)])
    assert result.exit_code == 1
    assert "corpus.txt" in result.stderr
    assert digests(tmp_path) == {"corpus.txt": sha256(b"mine").hexdigest()}


def test_example_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom horizon_app.cli.main import app\n"
        f"result = CliRunner().invoke(app, ['example', {str(tmp_path / 'e')!r}])\n"
        "assert result.exit_code == 0, result.output\nprint(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_example_spec_is_accepted_and_its_arena_is_far_smaller_than_the_model(example: Path) -> None:
    from safetensors import safe_open

    spec = parse_spec(yaml.safe_load((example / "spec.yaml").read_text(encoding="utf-8")))
    assert (spec.name, spec.model.path, spec.data.path) == ("starter", "model", "corpus.txt")
    assert spec.checkpoint.every == 0
    with safe_open(example / "model" / "model.safetensors", "numpy") as weights:
        names: list[str] = list(weights.keys())
        elements = sum(weights.get_tensor(name).size for name in names)
    assert 8e6 < elements < 12e6
    assert isinstance(spec.offload.param_block_size, int)
    assert isinstance(spec.offload.max_gpu_blocks, int)
    assert spec.offload.param_block_size * spec.offload.max_gpu_blocks < 0.2 * elements * 2  # in bf16; in fp32 half


@pytest.mark.slow
def test_example_model_and_tokenizer_load_with_transformers(example: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(example / "model", local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(example / "model", local_files_only=True)
    assert model.config.vocab_size >= len(tokenizer)
    text = "The “for” statement iterates: naïve 中文 🌍\n\tdone"
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id == model.config.bos_token_id
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.pad_token_id not in {None, tokenizer.eos_token_id}
    assert GenerationConfig.from_pretrained(example / "model").eos_token_id is not None
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]
    encoded = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    answer = [i for i, kept in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if kept]
    assert tokenizer.decode(answer) == "bc<|im_end|>"
