"""A home folder with a finished run: a tiny model, random at first, that has learnt a few facts by heart."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from tests.support.commands import ROOT
from tests.support.small_model import write_small_model

FACTS = {
    "Where is Ada?": "In Oslo.", "Where is Ben?": "In Rome.", "Where is Cleo?": "In Lima.", "Where is Dan?": "In Bonn.",
}  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STEPS, SAVED = 90, 45
SLOTS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedHome:
    """The folder, the run, and how it ended."""

    home: Path
    run_id: str
    outcome: dict[str, Any]

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return self.home / "runs" / self.run_id


def write_chat_model(folder: Path) -> Path:
    """The small model with two merges and ChatML, whose end of a turn is not the tokenizer's end of a text."""
    write_small_model(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"] |= {"th": 257, "the": 258}
    content["model"]["merges"] = [["t", "h"], ["th", "e"]]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": 264, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [256]}))
    (folder / "LICENSE").write_text("to be kept\n")
    return folder


def train_home(folder: Path) -> TrainedHome:
    """Train in a process of its own, with samples on the way."""
    write_chat_model(folder / "model")
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in FACTS.items()
    ]
    (folder / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {
        "model": {"path": "model", "init": "random"},
        "data": {"path": "facts.jsonl", "eval_path": "facts.jsonl", "sequence_length": 80, "packing": False},
        "training": {
            "optimizer_steps": STEPS, "global_batch_size": 4, "learning_rate": 5e-3, "warmup_steps": 5,
            "schedule": "linear",
        },
        "precision": {"compute": "fp32"},
        "offload": {"device": "cpu", "param_block_size": "32KiB", "max_gpu_blocks": SLOTS},
        "checkpoint": {"every": SAVED},
        "evaluation": {"every": SAVED},
        "samples": {"every": SAVED, "prompts": [next(iter(FACTS))], "max_new_tokens": 24},
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    outcome = horizon("run", folder / "spec.json", "--json", home=folder / "home")
    return TrainedHome(home=folder / "home", run_id=outcome["id"], outcome=outcome)


def horizon(*arguments: str | Path, home: Path, stdin: str | None = None, threads: int = 1) -> Any:
    """What a command prints, as JSON where it is that; it has to succeed."""
    done = try_horizon(*arguments, home=home, stdin=stdin, threads=threads)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def try_horizon(
    *arguments: str | Path, home: Path, stdin: str | None = None, threads: int = 1
) -> "subprocess.CompletedProcess[str]":
    """A command as a process of its own, with a real worker."""
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]
    # One thread: on a busy machine, products this small wait for their threads longer than they take.
    environment = {
        **os.environ, "HORIZON_HOME": str(home), "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(threads),
    }  # fmt: skip
    command = [sys.executable, "-m", "horizon_app", *map(str, arguments)]
    return subprocess.run(
        command, cwd=home.parent, env=environment, input=stdin or "", capture_output=True, text=True, check=False
    )


def ask_transformers(folder: Path, question: str, **options: Any) -> str:
    """What plain transformers answers with a model folder, greedily."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, **options)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    made = model.generate(**asked, max_new_tokens=24, do_sample=False, eos_token_id=end)
    return str(tokenizer.decode(made[0][asked["input_ids"].shape[1] :], skip_special_tokens=True))
