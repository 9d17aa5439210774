import torch

from horizon_app.engine.memory.host_pool import HostPool
from tests.support.streaming_rig import BLOCK_NUMEL, made_up_partition


def test_host_pool_fp32_weights_are_the_masters_themselves() -> None:
    pool = HostPool(made_up_partition(2), torch.float32)
    assert pool.weight is pool.master
    assert pool.num_bytes == 2 * BLOCK_NUMEL * 16


def test_host_pool_bf16_weights_are_rounded_copies() -> None:
    part = made_up_partition(2)
    pool = HostPool(part, torch.bfloat16)
    pool.master.copy_(torch.arange(part.numel) + 1000.5)
    assert not bool(pool.weight.any())
    pool.refresh_weights()
    assert torch.equal(pool.weight, pool.master.bfloat16())
    assert pool.num_bytes == 2 * BLOCK_NUMEL * 18


def test_host_pool_views_share_memory_with_their_plane() -> None:
    part = made_up_partition(3)
    pool = HostPool(part, torch.float32)
    view = pool.parameter_view(pool.grad, part.parameters[0])
    assert view.shape == (3, BLOCK_NUMEL)
    for segment in part.segments:
        pool.segment_grad(segment).fill_(segment.block + 1.0)
    assert view[:, 0].tolist() == [1.0, 2.0, 3.0]
    pool.master.copy_(torch.arange(part.numel))
    assert pool.block_weight(part.blocks[1]).tolist() == list(range(BLOCK_NUMEL, 2 * BLOCK_NUMEL))
