"""Answers of a trained model to many questions: by the engine from a checkpoint, and by plain transformers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from horizon_app.contracts.run_spec import Init
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.inference import InferenceEngine
from horizon_app.engine.training.requests import Sampling
from horizon_app.worker.order import read_order
from horizon_app.worker.prompts import load_prompt_writer

MOST_TOKENS = 8
AT_ONCE = 32
Question = list[dict[str, str]]


def by_engine(run_dir: Path, questions: Sequence[Question]) -> list[str]:
    """What the run's last checkpoint answers, greedily, streamed as in training but in fp32."""
    step = max(int(path.name) for path in (run_dir / "checkpoints").iterdir() if path.name.isdigit())
    folder, order = run_dir / "checkpoints" / str(step), read_order(run_dir)
    writer = load_prompt_writer(folder)
    config = EngineConfig.from_spec(order.spec, folder, order.disk_dir)
    engine = InferenceEngine(dataclasses.replace(config, init=Init.PRETRAINED, compute_dtype=torch.float32))
    sampling = Sampling(max_new_tokens=MOST_TOKENS, stop_ids=writer.stop_ids)
    answers: list[str] = []
    for start in range(0, len(questions), AT_ONCE):
        prompts = [writer.chat(question) for question in questions[start : start + AT_ONCE]]
        answers += [writer.text(found.tokens).strip() for found in engine.generate(prompts, sampling)]
    engine.close()
    return answers


def by_transformers(folder: Path, questions: Sequence[Question]) -> list[str]:
    """What transformers' own generate() makes of an export."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    answers: list[str] = []
    for question in questions:
        asked = tokenizer.apply_chat_template(
            question, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.no_grad():
            made = model.generate(**asked, max_new_tokens=MOST_TOKENS, do_sample=False)
        new = made[0][asked["input_ids"].shape[1] :]
        answers.append(str(tokenizer.decode(new, skip_special_tokens=True)).strip())
    return answers
