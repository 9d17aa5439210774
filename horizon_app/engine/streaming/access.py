"""The door between products and streaming: weights from the streamer, gradients to the gather."""

from collections.abc import Sequence

import torch

from horizon_app.engine.memory.geometry import Parameter, Partition, Segment
from horizon_app.engine.model.block_linear import SegmentAccess
from horizon_app.engine.streaming.gradients import GradientGather
from horizon_app.engine.streaming.streamer import Streamer


class SegmentDoor:
    """What blockwise layers hold on to; first it leads to a recorder, then to the device."""

    def __init__(self) -> None:
        self.target: SegmentAccess | None = None

    def _open(self) -> SegmentAccess:
        if self.target is None:
            raise AssertionError("a product ran before its weights had a source")
        return self.target

    def weight(self, segment: Segment) -> torch.Tensor:
        """See SegmentAccess."""
        return self._open().weight(segment)

    def gradient(self, segment: Segment) -> torch.Tensor:
        """See SegmentAccess."""
        return self._open().gradient(segment)

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        """See SegmentAccess."""
        self._open().gradient_done(segment, gradient)


class WeightAccess:
    """A `SegmentAccess` on the arena for a model of which nothing is trained."""

    def __init__(self, streamer: Streamer) -> None:
        self._streamer = streamer

    def weight(self, segment: Segment) -> torch.Tensor:
        """The segment's part of its block's slot."""
        block = self._streamer.access(segment.block)
        return block[segment.block_start : segment.block_start + segment.numel]

    def gradient(self, segment: Segment) -> torch.Tensor:
        """Never asked for."""
        raise AssertionError("a model of which nothing is trained has no gradients")

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        """Never called."""


class DeviceAccess(WeightAccess):
    """A `SegmentAccess` on the arena, with gradients."""

    def __init__(self, streamer: Streamer, gather: GradientGather) -> None:
        super().__init__(streamer)
        self._gather = gather

    def gradient(self, segment: Segment) -> torch.Tensor:
        """Room in a gradient slot."""
        return self._gather.reserve(segment)

    def gradient_done(self, segment: Segment, gradient: torch.Tensor) -> None:
        """Send it to the host."""
        self._gather.send(segment, gradient)


class Workspace:
    """Parameters that a module uses whole (fused experts): copied out of their blocks for one compute step."""

    def __init__(self, partition: Partition, access: WeightAccess, dtype: torch.dtype) -> None:
        self._partition, self._access, self._dtype = partition, access, dtype

    def fill(self, parameters: Sequence[Parameter], device: torch.device) -> dict[str, torch.Tensor]:
        """The parameters by name, as leaves that collect gradients."""
        leaves: dict[str, torch.Tensor] = {}
        for parameter in parameters:
            flat = torch.empty(parameter.numel, dtype=self._dtype, device=device)
            for index in self._partition.segments_of[parameter.index]:
                segment = self._partition.segments[index]
                start = segment.pool_start - parameter.pool_start
                flat[start : start + segment.numel] = self._access.weight(segment)
            leaves[parameter.name] = flat.view(parameter.shape).requires_grad_()
        return leaves
