"""Every family against the plain loop, ten steps in a small arena; `pytest -v` shows them as a table.

Also how their checkpoints load, in the layout that transformers saves and in that of the model itself.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from horizon_app.engine.errors import BadBatch, WeightsUnusable
from tests.support.engines import running, train, weights_of
from tests.support.families import FAMILIES, write_family
from tests.support.plain_loop import train_plainly
from tests.support.tiny_models import RandomBatches

STEPS, MICRO_BATCH = 10, 2
KEY_BIASES = ("k_proj.bias", "c_attn.bias", "query_key_value.bias")
"""What is added to all keys alike cancels out in the softmax: AdamW makes whole steps of what rounding leaves."""
CONVERTED = [
    "mixtral (fused experts)", "qwen3_moe (fused experts)", "qwen3_next (hybrid layers)",
    "gpt_neox (parallel residual)", "gemma3 (nested text_config)", "llama3 (scaled rope, tied)",
    "gpt2 (Conv1D, learned positions)",
]  # fmt: skip
"""Families whose files and models differ in names or shapes, and some where they don't."""


def sections(recompute: str = "always") -> dict[str, Any]:
    return {
        "offload": {"param_block_size": "16KiB", "max_gpu_blocks": 4},
        "training": {"micro_batch_size": MICRO_BATCH},
        "compute": {"recompute": recompute},
    }


def batches(family: str) -> RandomBatches:
    """Packed samples, where the family keeps them apart."""
    return RandomBatches(packed="hybrid" not in family)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_family_trains_as_in_the_plain_loop(family: str, tmp_path: Path) -> None:
    folder = write_family(family, tmp_path)
    recompute = "never" if list(FAMILIES).index(family) % 2 else "always"
    with running(folder, **sections(recompute)) as engine:
        metrics = train(engine, batches(family), STEPS)
        trained = weights_of(engine)
    # A router loss is of the whole step's tokens at once, which the plain loop only sees in one micro-batch.
    micro = 4 if "router" in family else MICRO_BATCH
    plain = train_plainly(
        folder, batches(family), steps=STEPS, micro_batch=micro, peak=1e-3, warmup=3, weight_decay=0.1
    )  # fmt: skip
    assert [step["train/loss"] for step in metrics] == pytest.approx(plain.losses, rel=1e-5)
    compared = [name for name in trained if name in plain.weights]
    assert len(compared) >= len(trained) - 1, "all but a tied head has the same name in both"
    for name in compared:
        error = float((trained[name] - plain.weights[name]).norm() / plain.weights[name].norm())
        assert error < (1e-3 if name.endswith(KEY_BIASES) else 1e-5), f"{name}: {error}"


@pytest.mark.parametrize("layout", ["saved", "own"])
@pytest.mark.parametrize("family", CONVERTED)
def test_checkpoint_loads_the_weights_that_transformers_loads(family: str, layout: str, tmp_path: Path) -> None:
    folder = write_family(family, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if layout == "own":
        aliases = set(model.all_tied_weights_keys)
        own = {name: tensor.clone() for name, tensor in model.state_dict().items() if name not in aliases}
        save_file(own, folder / "model.safetensors", metadata={"format": "pt"})
    wanted = dict(model.named_parameters(remove_duplicate=False))
    with running(folder, **sections()) as engine:
        for name, weight in weights_of(engine).items():
            assert torch.equal(weight, wanted[name]), name


def test_router_loss_does_not_depend_on_the_split_into_micro_batches(tmp_path: Path) -> None:
    folder = write_family("mixtral (router loss)", tmp_path)
    losses: list[list[float]] = []
    for micro_batch in (1, 4):
        asked: dict[str, Any] = {**sections(), "training": {"micro_batch_size": micro_batch}}
        with running(folder, **asked) as engine:
            losses.append([step["train/loss"] for step in train(engine, RandomBatches(), 3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_experts_without_tokens_keep_their_weights(tmp_path: Path) -> None:
    """No gradient, no moment, and no decay where none is asked for: nothing may move."""
    folder = write_family("mixtral (fused experts)", tmp_path)
    stored = load_file(folder / "model.safetensors")
    for name in [name for name in stored if name.endswith("gate.weight")]:
        stored[name].zero_()  # all experts are equally good: the same two win every token
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    asked: dict[str, Any] = {**sections(), "training": {"micro_batch_size": MICRO_BATCH, "weight_decay": 0.0}}
    with running(folder, **asked) as engine:
        before = engine.parameter("model.layers.0.mlp.experts.down_proj")
        train(engine, RandomBatches(), 1)
        after = engine.parameter("model.layers.0.mlp.experts.down_proj")
    moved = [expert for expert in range(4) if not torch.equal(before[expert], after[expert])]
    assert len(moved) == 2, "two experts a token, the same ones for all"


def test_buffers_that_belong_to_a_checkpoint_are_loaded_and_saved(tmp_path: Path) -> None:
    """DeepSeek corrects the choice of experts by a buffer that no gradient reaches."""
    folder = write_family("deepseek_v3 (latent attention)", tmp_path / "model")
    stored = load_file(folder / "model.safetensors")
    (name,) = [name for name in stored if name.endswith("e_score_correction_bias")]
    stored[name] += torch.arange(stored[name].numel())
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    with running(folder, **sections()) as engine:
        (tmp_path / "saved").mkdir()
        engine.snapshot().write(tmp_path / "saved")
    assert torch.equal(load_file(tmp_path / "saved" / "model.safetensors")[name], stored[name])


def test_checkpoint_that_lacks_one_expert_names_what_can_not_be_made(tmp_path: Path) -> None:
    folder = write_family("mixtral (fused experts)", tmp_path)
    stored = load_file(folder / "model.safetensors")
    del stored["model.layers.1.block_sparse_moe.experts.2.w3.weight"]
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsUnusable, match=r"layers\.1\.mlp\.experts\.gate_up_proj"), running(folder):
        pass


def test_packed_samples_are_refused_where_layers_carry_state_along(tmp_path: Path) -> None:
    folder = write_family("qwen3_next (hybrid layers)", tmp_path)
    with running(folder, **sections()) as engine, pytest.raises(BadBatch, match=r"linear_attention.*data\.packing"):
        train(engine, RandomBatches(), 1)
