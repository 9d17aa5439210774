"""PyTorch's own sharding with parameters, gradients and optimizer on the CPU: one process, gloo, bf16 products."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

from tests.bench.loop_process import Loop, Mark
from tests.bench.networks import build_network, loss_of
from tests.bench.work import BETAS, LEARNING_RATE, MAX_NORM, Work


def build(work: Work) -> Loop:
    """Every layer sharded by itself, then the rest, as its guide does."""
    store = dist.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    network = build_network(work)
    mesh = init_device_mesh("cpu", (1,))
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy(pin_memory=False)  # memory can only be pinned for a card
    for module in (*network.model.layers, network):
        fully_shard(module, mesh=mesh, mp_policy=precision, offload_policy=offload)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.0, fused=True)

    def run(steps: int, mark: Mark) -> None:
        for step in range(1, steps + 1):
            loss_of(network, work, step).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad()
            mark()

    return Loop(run=run, close=dist.destroy_process_group)
