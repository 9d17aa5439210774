"""The plain in-memory PyTorch loop that the engine is measured against. Nothing of the engine in it."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from horizon_app.data.batches import IGNORE, Batch
from tests.support.tiny_models import RandomBatches


@dataclass(frozen=True)
class PlainResult:
    """Losses of each step, norms, and the final weights by name."""

    losses: list[float]
    norms: list[float]
    weights: dict[str, torch.Tensor]


def learning_rate(step: int, total: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then a cosine to zero; written down again here, so that the engine's own is checked."""
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1.0 + float(torch.cos(torch.tensor((step - 1 - warmup) / (total - warmup) * torch.pi))))


def train_plainly(
    model_dir: Path, source: RandomBatches, *, steps: int, micro_batch: int, peak: float, warmup: int,
    weight_decay: float, max_norm: float = 1.0, dtype: torch.dtype = torch.float32,
    gradient_ema: float = 0.0,
) -> PlainResult:  # fmt: skip
    """Train `model_dir` on `source` with autograd and torch.optim.AdamW, all in memory.

    With `gradient_ema`, AdamW gets a moving average over the clipped gradients, corrected for its start from zero.
    """
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}],
        betas=(0.9, 0.95), eps=1e-8,
    )  # fmt: skip
    losses: list[float] = []
    norms: list[float] = []
    averages: dict[str, torch.Tensor] = {}
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, peak, warmup)
        losses.append(_accumulate(model, source.batch(step), micro_batch, dtype))
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)))
        if gradient_ema:
            _average(model, averages, gradient_ema, step)
        optimizer.step()
        optimizer.zero_grad()
    return PlainResult(losses, norms, {name: p.detach() for name, p in model.named_parameters()})


def _average(model: torch.nn.Module, averages: dict[str, torch.Tensor], decay: float, step: int) -> None:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            before = averages.get(name, torch.zeros_like(parameter))
            averages[name] = decay * before + (1 - decay) * parameter.grad
            parameter.grad = averages[name] / (1 - decay**step)


def _accumulate(model: torch.nn.Module, batch: Batch, micro_batch: int, dtype: torch.dtype) -> float:
    total = 0.0
    for start in range(0, batch.input_ids.shape[0], micro_batch):
        rows = slice(start, start + micro_batch)
        half = dtype if dtype != torch.float32 else torch.bfloat16
        with torch.autocast("cpu", dtype=half, enabled=dtype != torch.float32):
            output = model(
                input_ids=torch.from_numpy(batch.input_ids[rows]),
                position_ids=torch.from_numpy(batch.position_ids[rows]), use_cache=False,
            )  # fmt: skip
            logits = output.logits
        labels = torch.from_numpy(batch.labels[rows])[:, 1:].reshape(-1)
        loss = F.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]).float(), labels, ignore_index=IGNORE, reduction="sum"
        )
        loss = loss / batch.num_trained_tokens
        if getattr(output, "aux_loss", None) is not None:  # the router loss, where the config asks for it
            share = batch.input_ids[rows].shape[0] / batch.input_ids.shape[0]
            loss = loss + model.router_aux_loss_coef * output.aux_loss * share
        loss.backward()
        total += float(loss.detach())
    return total
