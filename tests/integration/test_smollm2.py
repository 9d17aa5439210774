"""A real pretrained model: converted from GGUF, answering, fine-tuned in an arena of a fifth of its weights."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support.smollm2 import smollm2_folder

ROOT = Path(__file__).parents[2]
FACTS = ROOT / "tests" / "data" / "facts.jsonl"
STEPS, SLOTS = 30, 12

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def answer(folder: Path, question: str) -> str:
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        tokens = model.generate(**asked, max_new_tokens=24, do_sample=False)
    return str(tokenizer.decode(tokens[0][asked["input_ids"].shape[1] :], skip_special_tokens=True))


def horizon(*arguments: str | Path) -> dict[str, Any]:
    """What a command prints with --json."""
    command = [sys.executable, "-m", "horizon_app", *map(str, arguments), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_smollm2_converted_knows_the_capital_of_france() -> None:
    assert "Paris" in answer(smollm2_folder(), "What is the capital of France?")


def test_smollm2_inspected_can_be_trained() -> None:
    found = horizon("model", "inspect", smollm2_folder())
    assert found["trainable"], found["obstacles"]
    assert (found["architecture"], found["layers"], found["tied"]) == ("LlamaForCausalLM", 30, True)
    assert found["parameters"] == sum(group["parameters"] for group in found["groups"]) == 134_515_008
    assert found["embedding_rows"] == found["tokenizer_size"] == 49_152
    assert found["has_chat_template"]


def test_smollm2_fine_tuned_in_twelve_blocks_learns_new_facts(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "model": {"path": str(smollm2_folder())},
        "data": {"path": str(FACTS), "sequence_length": 128},
        "training": {
            "optimizer_steps": STEPS, "global_batch_size": 2, "learning_rate": 3e-4, "warmup_steps": 3,
        },
        "precision": {"compute": "bf16"},
        "offload": {"device": "cpu", "param_block_size": "4MiB", "max_gpu_blocks": SLOTS},
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    home = tmp_path / "home"
    outcome = horizon("run", tmp_path / "spec.json", "--home", home)
    metrics, peak = outcome["metrics"], outcome["peak"]
    losses = step_losses(home / "runs" / outcome["id"])
    print(
        f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {metrics['throughput/tokens_per_second']:.0f} tokens/s, "
        f"hit rate {metrics['prefetch/hit_rate']:.3f}, optimum {metrics['prefetch/optimal_hit_rate']:.3f}, peak {peak}"
    )
    assert (outcome["state"], outcome["optimizer_steps"], len(losses)) == ("finished", STEPS, STEPS)
    assert mean(losses[-5:]) < mean(losses[:5]) - 0.5
    assert 0 < peak["device_blocks"] <= SLOTS
    assert peak["device_bytes"] <= SLOTS * 4 * 2**20
    assert "Paris" in answer(
        home / "runs" / outcome["id"] / "checkpoints" / str(STEPS), "What is the capital of France?"
    )


def step_losses(run_dir: Path) -> list[float]:
    events = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]
    return [event["values"]["train/loss"] for event in events if event["type"] == "metrics"]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
