"""Plain PyTorch for a model larger than RAM: parameters and moments in shared file mappings, paged by the system.

Layers are recomputed, and each parameter is updated in the backward as soon as its gradient is there, so that no
gradient stays. The norm over all gradients is not known then: this loop can't clip.
"""

from pathlib import Path

import torch

from tests.bench.loop_process import Loop, Mark
from tests.bench.networks import build_network, loss_of
from tests.bench.work import BETAS, LEARNING_RATE, Work

_ALIGNED = 1024
"""Elements that every tensor's place in its file is rounded up to: whole pages."""


def build(work: Work, folder: str) -> Loop:
    """Three files in `folder`: parameters, first and second moments."""
    network = build_network(work, device="meta", recompute=True)
    parameters = dict(network.named_parameters())
    total = sum(-(-p.numel() // _ALIGNED) * _ALIGNED for p in parameters.values())
    planes = [
        torch.from_file(str(Path(folder) / name), shared=True, size=total, dtype=torch.float32)
        for name in ("parameters", "first", "second")
    ]
    torch.manual_seed(0)
    start = 0
    for name, parameter in parameters.items():
        views = [plane[start : start + parameter.numel()].view(parameter.shape) for plane in planes]
        start += -(-parameter.numel() // _ALIGNED) * _ALIGNED
        _fill(views[0], name)
        _place(network, name, views)
    network.model.rotary_emb = type(network.model.rotary_emb)(config=network.config)

    def run(steps: int, mark: Mark) -> None:
        for step in range(1, steps + 1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(network, work, step)
            loss.backward()
            mark()

    return Loop(run=run)


def _fill(weight: torch.Tensor, name: str) -> None:
    if weight.dim() > 1:
        weight.normal_(0.0, 0.02)
    else:
        weight.fill_(1.0)


def _place(network: torch.nn.Module, name: str, views: list[torch.Tensor]) -> None:
    """Put the mapped weight where the meta one was, and update it whenever its gradient is there."""
    weight, first, second = views
    owner, _, last = name.rpartition(".")
    parameter = torch.nn.Parameter(weight)
    setattr(network.get_submodule(owner), last, parameter)
    steps_done = torch.zeros(())

    def update(ready: torch.Tensor) -> None:
        assert ready.grad is not None
        with torch.no_grad():
            steps_done.add_(1)
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                [ready], [ready.grad], [first], [second], [], [steps_done], lr=LEARNING_RATE, beta1=BETAS[0],
                beta2=BETAS[1], weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
            )  # fmt: skip
        ready.grad = None

    parameter.register_post_accumulate_grad_hook(update)
