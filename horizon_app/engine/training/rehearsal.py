"""Runs a model layer by layer on two tokens without weights, before it trains.

It shows the order of accesses to blocks, which parameters take part in the loss, and whether the model's own forward
can be taken apart at all.
"""

import torch

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.model.discovery import CONSTRUCTOR_FAULTS, Discovered, stage_parameters
from horizon_app.engine.model.staged import Rehearsal, StagedModel
from horizon_app.engine.streaming.access import SegmentDoor
from horizon_app.engine.streaming.partition import partition
from horizon_app.engine.streaming.schedule import OrderRecorder, StageOrder

_WIDE_BLOCK_BYTES = 64 << 20
"""A block that rows fit into, where only the model is in question."""


def rehearse(found: Discovered) -> None:
    """Raise UnsupportedModel where the model can't be run layer by layer. Its modules are replaced on the way."""
    blocks = partition(stage_parameters(found), block_bytes=_WIDE_BLOCK_BYTES, element_bytes=4)
    door = SegmentDoor()
    model = StagedModel(found, blocks, door, device=torch.device("cpu"), compute_dtype=torch.float32)
    learn_order(blocks, model, door)


def learn_order(
    partition: Partition, model: StagedModel, door: SegmentDoor
) -> tuple[tuple[StageOrder, ...], frozenset[int]]:
    """The order of accesses, and which parameters get gradients. Raises UnsupportedModel."""
    recorder = OrderRecorder(partition, model.device, model.compute_dtype)
    door.target = recorder
    rehearsal = _run(model, recorder)
    if rehearsal.sees_ahead:
        raise UnsupportedModel(
            "its tokens see those behind them: it is no causal language model (where config.json has is_decoder, "
            "that has to be true)"
        )
    trained = set(recorder.touched)
    looked_up = {row.parameter for row in rehearsal.rows}
    for parameter in partition.parameters:
        leaf = model.resident.get(parameter.name)
        if leaf is not None and leaf.grad is not None:
            leaf.grad = None
            trained.add(parameter.index)
        elif parameter.name in rehearsal.gathered or parameter.name in looked_up:
            trained.add(parameter.index)
    if not trained:
        raise UnsupportedModel("no parameter of the model takes part in the loss")
    return recorder.orders(), frozenset(trained)


def _run(model: StagedModel, recorder: OrderRecorder) -> Rehearsal:
    try:
        with torch.enable_grad():
            rehearsal = model.rehearse()
        recorder.recording_backward = True
        rehearsal.output.backward()
    # A forward that can't be taken apart fails in its own ways, most of all at a parameter that is not there.
    except CONSTRUCTOR_FAULTS as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise UnsupportedModel(f"the model can't be run layer by layer: {type(error).__name__}: {first}") from error
    return rehearsal
