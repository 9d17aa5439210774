"""The command line as whole processes, around the worker with the fake engine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from horizon_app.cli.main import app

ROOT = Path(__file__).parents[2]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
}


def write_spec(folder: Path, *, model: str = "model", **sections: Any) -> Path:
    """A folder with a spec in YAML, the outside of a model and some text; gives the spec's path."""
    (folder / model).mkdir(parents=True)
    (folder / model / "config.json").write_text(json.dumps(CONFIG))
    (folder / model / "tokenizer.json").write_text("{}")
    (folder / "corpus.txt").write_text("once upon a time\n" * 100)
    spec = {
        "model": {"path": model, "init": "random"},
        "data": {"path": "corpus.txt", "sequence_length": 32},
        "training": {"optimizer_steps": 5},
        **sections,
    }
    path = folder / "spec.yaml"
    path.write_text("\n".join(f"{section}: {json.dumps(values)}" for section, values in spec.items()) + "\n")
    return path


FAKE_WORKER = "tests.support.fake_worker"


def start_horizon(
    *arguments: str | Path, home: Path, step_s: float = 0.01, worker: str = FAKE_WORKER
) -> "subprocess.Popen[str]":
    """Start the command line as a process; its runs use the fake engine, whose steps take `step_s` seconds."""
    return subprocess.Popen(
        [sys.executable, "-m", "horizon_app", *map(str, arguments)],
        cwd=home, env={**os.environ, **_environment(home, step_s, worker)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run_horizon(*arguments: str | Path, home: Path, step_s: float = 0.01, worker: str = FAKE_WORKER) -> Result:
    """Run the command line to its end in this process, which spares a second of imports; its workers are real ones."""
    return CliRunner().invoke(app, [*map(str, arguments)], env=_environment(home, step_s, worker))


def _environment(home: Path, step_s: float, worker: str) -> dict[str, str]:
    return {
        "HORIZON_HOME": str(home),
        "HORIZON_WORKER_MODULE": worker,
        "HORIZON_FAKE_STEP_S": str(step_s),
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]),
    }
