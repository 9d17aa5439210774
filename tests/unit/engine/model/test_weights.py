"""What a checkpoint has to hold, and that every fault is told at once."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from horizon_app.engine.errors import WeightsUnusable
from horizon_app.engine.memory.geometry import Parameter, Use
from horizon_app.engine.model.discovery import Discovered, build_meta, discover, load_config, stage_parameters
from horizon_app.engine.model.weights import WeightPlan, plan_weights, read_weights
from tests.support.families import write_family

LLAMA, TIED, MIXTRAL = "llama3 (scaled rope, untied)", "llama3 (scaled rope, tied)", "mixtral (fused experts)"


def planned(folder: Path) -> WeightPlan:
    found = discover(build_meta(load_config(folder)))
    return plan_weights(folder, found, names_of(found))


def names_of(found: Discovered) -> list[str]:
    return [parameter.name for _, stage in stage_parameters(found) for parameter in stage]


def change(folder: Path, *leave_out: str, **put: torch.Tensor) -> None:
    """Rewrite the stored tensors; `__` stands for a dot."""
    path = folder / "model.safetensors"
    stored = {name: tensor for name, tensor in load_file(path).items() if name not in leave_out}
    save_file({**stored, **{name.replace("__", "."): tensor for name, tensor in put.items()}}, path)


def test_every_fault_of_a_checkpoint_is_told_at_once(tmp_path: Path) -> None:
    folder = write_family(LLAMA, tmp_path)
    change(
        folder, "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight",
        model__norm__weight=torch.ones(63), lm_head__weight=torch.zeros(320, 64, dtype=torch.int8),
        score__weight=torch.zeros(2, 64),
    )  # fmt: skip
    with pytest.raises(WeightsUnusable) as refused:
        planned(folder)
    told = str(refused.value)
    assert "2 of 21 tensors are missing, first model.layers.0.mlp.up_proj.weight, model.layers.1.mlp" in told
    assert "1 stored tensors are no part of a LlamaForCausalLM, first score.weight" in told
    assert "model.norm.weight has shape [63], the config asks for [64]" in told
    assert "lm_head.weight holds I8" in told


def test_leftovers_that_transformers_passes_over_are_no_fault(tmp_path: Path) -> None:
    folder = write_family(LLAMA, tmp_path)
    change(folder, model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(8))
    assert planned(folder).conversion.unknown == ()


def test_tied_weight_that_is_stored_twice_with_other_values_is_refused(tmp_path: Path) -> None:
    folder = write_family(TIED, tmp_path)
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    change(folder, lm_head__weight=embedding.clone())
    planned(folder)
    change(folder, lm_head__weight=embedding + 1)
    with pytest.raises(WeightsUnusable, match="set tie_word_embeddings to false"):
        planned(folder)


def test_experts_are_read_one_by_one(tmp_path: Path) -> None:
    """Each piece is one expert: what is fused is never in memory whole."""
    plan = planned(write_family(MIXTRAL, tmp_path))
    numels = {name: p.numel() for name, p in plan.found.causal.named_parameters()}
    largest: dict[str, int] = {}

    def note(parameter: Parameter, values: torch.Tensor, start: int = 0) -> None:
        largest[parameter.name] = max(largest.get(parameter.name, 0), values.numel())

    parameters = {
        name: Parameter(index=0, name=name, shape=tuple(p.shape), use=Use.GATHER, stage=0, pool_start=0, decay=True)
        for name, p in plan.found.causal.named_parameters()
    }
    read_weights(plan, parameters, note)
    fused = [name for name in largest if "experts" in name]
    assert len(fused) == 4
    assert all(largest[name] * 4 == numels[name] for name in fused)
