"""Generation through the streaming engine against transformers' own generate(): the same tokens, family by family."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
)

from horizon_app.engine.errors import BadBatch
from horizon_app.engine.training.assemble import Hooks
from horizon_app.engine.training.inference import InferenceEngine
from horizon_app.engine.training.requests import Continuation, Ending, Sampling
from tests.support.chaos import ChaosBackend, poison
from tests.support.engines import engine_config, running, train
from tests.support.tiny_models import VOCABULARY, RandomBatches, write_checkpoint

PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [101], [201, 17, 33, 250, 44]]
NEW = 16
SLOTS = 3
SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": None,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama3": LlamaConfig(rope_parameters=LLAMA3, **SIZES),
    "mistral": MistralConfig(sliding_window=6, **SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(head_dim=24, tie_word_embeddings=True, **SIZES),
    "gemma2": Gemma2Config(head_dim=16, sliding_window=6, **SIZES),
    "gemma3": Gemma3TextConfig(head_dim=16, sliding_window=6, **SIZES),
    "phi3": Phi3Config(**SIZES),
    "olmo2": Olmo2Config(**SIZES),
    "cohere": CohereConfig(**SIZES),
    "gpt_neox": GPTNeoXConfig(**{key: value for key, value in SIZES.items() if key != "num_key_value_heads"}),
    "qwen3_moe": Qwen3MoeConfig(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, **{"head_dim": 16}, **SIZES
    ),
    "gpt_oss": GptOssConfig(
        num_local_experts=4, num_experts_per_tok=2, head_dim=16, sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, **SIZES,
    ),
    "qwen3_next": Qwen3NextConfig(
        head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
        linear_value_head_dim=16, layer_types=["linear_attention", "full_attention", "linear_attention"], **SIZES,
    ),
    "gpt2": GPT2Config(
        n_embd=64, n_layer=3, n_head=4, vocab_size=VOCABULARY, n_positions=64, bos_token_id=None, eos_token_id=None
    ),
}  # fmt: skip


def write(config: PreTrainedConfig, folder: Path) -> Path:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():  # fresh weights of some families give nearly the same logits for every token
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder)
    return folder


def by_transformers(folder: Path, prompt: list[int]) -> list[int]:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    made = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, pad_token_id=0)
    return made[0, len(prompt) :].tolist()


def inference(folder: Path, **offload: Any) -> InferenceEngine:
    config = engine_config(folder, offload={"param_block_size": "16KiB", "max_gpu_blocks": SLOTS, **offload})
    hooks = Hooks(on_slot_release=poison, on_access=lambda: None)
    return InferenceEngine(config, backend=ChaosBackend(0), hooks=hooks)


def tokens(found: list[Continuation]) -> list[list[int]]:
    return [list(continuation.tokens) for continuation in found]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_generation_greedy_equals_transformers_token_for_token(family: str, tmp_path: Path) -> None:
    """Prompts of unlike lengths at once, each as transformers continues it alone; three slots for the whole model."""
    folder = write(FAMILIES[family], tmp_path)
    engine = inference(folder)
    found = engine.generate(PROMPTS, Sampling(max_new_tokens=NEW))
    assert tokens(found) == [by_transformers(folder, prompt) for prompt in PROMPTS]
    assert {continuation.ending for continuation in found} == {Ending.LENGTH}
    assert engine.arena.most_used <= SLOTS
    engine.close()


def test_generation_between_steps_and_from_the_checkpoint_is_the_same(tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path / "model")
    with running(folder, offload={"param_block_size": "16KiB", "max_gpu_blocks": SLOTS}) as engine:
        train(engine, RandomBatches(), 3)
        live = engine.generate(PROMPTS, Sampling(max_new_tokens=NEW))
        (tmp_path / "saved").mkdir()
        engine.snapshot().write(tmp_path / "saved")
    again = inference(tmp_path / "saved")
    assert tokens(again.generate(PROMPTS, Sampling(max_new_tokens=NEW))) == tokens(live)
    again.close()


def test_generation_from_a_disk_tier_is_the_same(tmp_path: Path) -> None:
    folder = write_checkpoint("llama", tmp_path)
    roomy, tight = inference(folder), inference(folder, host_memory="160KiB", disk="auto")
    assert tight.sizes.placement.uses_disk
    assert tokens(tight.generate(PROMPTS, Sampling(max_new_tokens=NEW))) == tokens(
        roomy.generate(PROMPTS, Sampling(max_new_tokens=NEW))
    )
    roomy.close()
    tight.close()


def test_generation_drawn_with_a_seed_is_repeated_and_another_seed_differs(tmp_path: Path) -> None:
    engine = inference(write_checkpoint("llama", tmp_path))
    drawn = [
        tokens(engine.generate(PROMPTS, Sampling(max_new_tokens=NEW, temperature=1.3, top_p=0.9, seed=seed)))
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    alone = tokens(engine.generate(PROMPTS[1:2], Sampling(max_new_tokens=NEW, temperature=1.3, top_p=0.9, seed=1)))
    assert alone == drawn[0][1:2]
    engine.close()


def test_generation_with_one_candidate_left_is_greedy_whatever_the_temperature(tmp_path: Path) -> None:
    engine = inference(write_checkpoint("llama", tmp_path))
    greedy = tokens(engine.generate(PROMPTS, Sampling(max_new_tokens=NEW)))
    assert tokens(engine.generate(PROMPTS, Sampling(max_new_tokens=NEW, temperature=3.0, top_k=1))) == greedy
    assert tokens(engine.generate(PROMPTS, Sampling(max_new_tokens=NEW, temperature=3.0, top_p=1e-6))) == greedy
    engine.close()


def test_generation_ends_at_a_stop_id_for_each_prompt_by_itself(tmp_path: Path) -> None:
    engine = inference(write_checkpoint("llama", tmp_path))
    free = tokens(engine.generate(PROMPTS, Sampling(max_new_tokens=NEW)))
    stop = free[0][3]
    found = engine.generate(PROMPTS, Sampling(max_new_tokens=NEW, stop_ids=frozenset({stop})))
    expected = [made[: made.index(stop)] if stop in made else made for made in free]
    assert tokens(found) == expected
    assert found[0].ending is Ending.STOP
    engine.close()


def test_generation_cancelled_answers_what_there_is(tmp_path: Path) -> None:
    engine = inference(write_checkpoint("llama", tmp_path))
    heard: list[list[int | None]] = []

    def listen(new: list[int | None]) -> bool:
        heard.append(new)
        return len(heard) < 4

    found = engine.generate(PROMPTS[:1], Sampling(max_new_tokens=NEW), listen)
    assert [new[0] for new in heard] == list(found[0].tokens)
    assert (len(found[0].tokens), found[0].ending) == (4, Ending.CANCELLED)
    engine.close()


def test_generation_stops_at_the_last_position_and_refuses_a_longer_prompt(tmp_path: Path) -> None:
    engine = inference(write_checkpoint("gpt2", tmp_path))
    (found,) = engine.generate([list(range(60))], Sampling(max_new_tokens=NEW))
    assert (len(found.tokens), found.ending) == (4, Ending.LENGTH)
    with pytest.raises(BadBatch, match="64 tokens, but the model has 64 positions"):
        engine.generate([list(range(64))], Sampling(max_new_tokens=1))
    with pytest.raises(BadBatch, match="no tokens"):
        engine.generate([[1], []], Sampling(max_new_tokens=1))
    engine.close()
