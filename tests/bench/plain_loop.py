"""The plain in-memory loop: fp32 weights, bf16 autocast, fused AdamW, clipping."""

import torch

from tests.bench.loop_process import Loop, Mark
from tests.bench.networks import build_network, loss_of
from tests.bench.work import BETAS, LEARNING_RATE, MAX_NORM, Work


def build(work: Work) -> Loop:
    """What people write for a model that fits."""
    network = build_network(work)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.0, fused=True)

    def run(steps: int, mark: Mark) -> None:
        for step in range(1, steps + 1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(network, work, step)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad()
            mark()

    return Loop(run=run)
