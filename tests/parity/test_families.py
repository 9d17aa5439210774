"""More families against the plain loop: soft caps, sliding windows, scaled logits, other norms, experts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPTNeoXConfig,
    GraniteConfig,
    MixtralConfig,
    Olmo2Config,
    OPTConfig,
    PreTrainedConfig,
    Qwen3MoeConfig,
)

from horizon_app.engine.errors import UnsupportedModel, WeightsUnusable
from tests.support.engines import running, train, weights_of
from tests.support.plain_loop import PlainResult, train_plainly
from tests.support.tiny_models import VOCABULARY, RandomBatches

SOURCE = RandomBatches()
STEPS, MICRO_BATCH = 5, 2

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": None,
    "eos_token_id": None,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
TIED: dict[str, Any] = {"tie_word_embeddings": True}
UNTIED: dict[str, Any] = {"tie_word_embeddings": False}
DENSE: dict[str, PreTrainedConfig] = {
    "gemma2": Gemma2Config(head_dim=16, sliding_window=8, **GROUPED, **TIED),
    "gemma3": Gemma3TextConfig(head_dim=16, sliding_window=8, **GROUPED, **TIED),
    "olmo2": Olmo2Config(**GROUPED, **UNTIED),
    "granite": GraniteConfig(
        logits_scaling=3.0, embedding_multiplier=2.0, residual_multiplier=0.5, **GROUPED, **UNTIED
    ),
    "cohere": CohereConfig(**GROUPED, **TIED),
}  # fmt: skip
EXPERTS: dict[str, PreTrainedConfig] = {
    "mixtral": MixtralConfig(num_local_experts=4, **GROUPED, **UNTIED),
    "qwen3_moe": Qwen3MoeConfig(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, **{"head_dim": 16}, **GROUPED, **UNTIED
    ),
}  # fmt: skip


def sections(recompute: str, init: str = "pretrained") -> dict[str, Any]:
    return {
        "model": {"init": init},
        "offload": {"param_block_size": "16KiB", "max_gpu_blocks": 4},
        "training": {"micro_batch_size": MICRO_BATCH},
        "compute": {"recompute": recompute},
    }


def plainly(folder: Path) -> PlainResult:
    return train_plainly(
        folder, SOURCE, steps=STEPS, micro_batch=MICRO_BATCH, peak=1e-3, warmup=3, weight_decay=0.1
    )  # fmt: skip


def write(config: PreTrainedConfig, folder: Path) -> Path:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return folder


def assert_losses_and_weights(
    metrics: list[dict[str, float]], trained: dict[str, torch.Tensor], plain: PlainResult
) -> None:
    assert [step["train/loss"] for step in metrics] == pytest.approx(plain.losses, rel=1e-5)
    compared = [name for name in trained if name in plain.weights]
    assert len(compared) >= len(trained) - 1, "all but a tied head has the same name in both"
    for name in compared:
        error = float((trained[name] - plain.weights[name]).norm() / plain.weights[name].norm())
        assert error < 1e-5, f"{name}: {error}"


@pytest.mark.parametrize("recompute", ["always", "never"])
@pytest.mark.parametrize("family", list(DENSE))
def test_engine_dense_family_equals_the_plain_loop(family: str, recompute: str, tmp_path: Path) -> None:
    folder = write(DENSE[family], tmp_path)
    with running(folder, **sections(recompute)) as engine:
        metrics = train(engine, SOURCE, STEPS)
        assert_losses_and_weights(metrics, weights_of(engine), plainly(folder))


@pytest.mark.parametrize("recompute", ["always", "never"])
@pytest.mark.parametrize("family", list(EXPERTS))
def test_engine_fused_experts_from_a_workspace_equal_the_plain_loop(
    family: str, recompute: str, tmp_path: Path
) -> None:
    """Fused experts are no linear layers: they are copied out of their blocks for the length of a compute step."""
    EXPERTS[family].save_pretrained(tmp_path / "config")
    with running(tmp_path / "config", **sections(recompute, init="random")) as engine:
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(tmp_path / "config"), dtype=torch.float32
        )  # fmt: skip
        model.load_state_dict(weights_of(engine), strict=False)
        model.save_pretrained(tmp_path / "same")
        metrics = train(engine, SOURCE, STEPS)
        assert engine._m.step._schedule is not None
        schedule = engine._m.step._schedule[1]
        assert any("experts" in p.name for stage in engine._m.step._p.model.gathered for p in stage)
        assert engine._m.counters.accesses == len(schedule.accesses), "what is gathered is on the schedule"
        assert_losses_and_weights(metrics, weights_of(engine), plainly(tmp_path / "same"))


@pytest.mark.parametrize(
    "config",
    [EXPERTS["mixtral"], EXPERTS["qwen3_moe"], GPTNeoXConfig(**SIZES, **UNTIED)],
    ids=["mixtral", "qwen3_moe", "gpt_neox"],
)
def test_engine_checkpoint_whose_tensors_transformers_converts_is_refused_by_name(
    config: PreTrainedConfig, tmp_path: Path
) -> None:
    """Their files keep names and shapes that transformers converts while loading; never train on half of a model."""
    folder = write(config, tmp_path)
    with pytest.raises(WeightsUnusable, match=r"tensors are missing|has shape"), running(folder):
        pass


def test_engine_opt_is_refused_for_its_position_embedding(tmp_path: Path) -> None:
    config = OPTConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, ffn_dim=96, num_attention_heads=4,
        max_position_embeddings=64, word_embed_proj_dim=64, dropout=0.0,
    )  # fmt: skip
    folder = write(config, tmp_path)
    with pytest.raises(UnsupportedModel, match="embed_positions"), running(folder, **sections("never")):
        pass
