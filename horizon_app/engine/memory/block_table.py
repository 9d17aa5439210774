"""The one truth of residency: the state of every block on the device and on the host. Only this module changes it."""

from enum import IntEnum

from horizon_app.contracts.residency import MapId


class DeviceWeight(IntEnum):
    """State of a block's weights on the device tier (as in a residency frame)."""

    ABSENT = 0
    ARRIVING = 1
    READY = 2
    IN_USE = 3


class DeviceGrad(IntEnum):
    """State of a block's gradient on the device tier."""

    NONE = 0
    FILLING = 1
    LEAVING = 2


class Host(IntEnum):
    """State of a block on the host tier."""

    ABSENT = 0
    ARRIVING = 1
    READY = 2
    GRADIENT_PENDING = 3


SHARED = -2
"""Slot of a block that products read from the host tier's memory itself."""


class IllegalResidency(AssertionError):
    """A transition that the table does not know: a fault of the engine, never of its user."""


class BlockTable:
    """States of all blocks, and the slot of each block that is on the device.

    The host tier is authoritative: a block leaves the device by being forgotten, never by losing its only copy.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.slot_of: list[int] = [-1] * num_blocks
        self._weight = bytearray(num_blocks)
        self._grad = bytearray(num_blocks)
        self._host = bytearray([Host.READY]) * num_blocks
        self._open_grads = [0] * num_blocks

    def weight(self, block: int) -> DeviceWeight:
        """State of the block's weights on the device."""
        return DeviceWeight(self._weight[block])

    def is_on_device(self, block: int) -> bool:
        """Whether the block has a slot: ready, in use or still arriving."""
        return self._weight[block] != DeviceWeight.ABSENT

    @property
    def num_shared(self) -> int:
        """Blocks that products read from the host tier's memory now."""
        return self.slot_of.count(SHARED)

    def begin_arrival(self, block: int, slot: int) -> None:
        """A copy of the block into `slot` has been asked for."""
        self._move(block, DeviceWeight.ABSENT, DeviceWeight.ARRIVING)
        self.slot_of[block] = slot

    def arrived(self, block: int) -> None:
        """The copy has ended."""
        self._move(block, DeviceWeight.ARRIVING, DeviceWeight.READY)

    def begin_use(self, block: int) -> None:
        """A product reads the block; it may not leave."""
        self._move(block, DeviceWeight.READY, DeviceWeight.IN_USE)

    def end_use(self, block: int) -> None:
        """No product reads the block any more."""
        self._move(block, DeviceWeight.IN_USE, DeviceWeight.READY)

    def evict(self, block: int) -> int:
        """The block leaves the device; answers the slot that becomes free, `SHARED` where it had none."""
        self._move(block, DeviceWeight.READY, DeviceWeight.ABSENT)
        slot, self.slot_of[block] = self.slot_of[block], -1
        return slot

    def begin_gradient(self, block: int) -> None:
        """A gradient of (a part of) the block is being written on the device."""
        self._open_grads[block] += 1
        self._grad[block] = DeviceGrad.FILLING

    def gradient_leaves(self, block: int) -> None:
        """The gradient is complete and on its way to the host."""
        if self._open_grads[block] == 0:
            raise IllegalResidency(f"block {block}: a gradient leaves that was never begun")
        self._grad[block] = DeviceGrad.LEAVING

    def gradient_gathered(self, block: int) -> None:
        """The gradient has been added on the host."""
        if self._open_grads[block] == 0:
            raise IllegalResidency(f"block {block}: a gradient was gathered that was never begun")
        self._open_grads[block] -= 1
        if self._open_grads[block] == 0:
            self._grad[block] = DeviceGrad.NONE
        self._host[block] = Host.GRADIENT_PENDING

    def gradient_on_host(self, block: int) -> None:
        """A gradient was added on the host without passing a slot (embedding rows, gathered parameters)."""
        self._host[block] = Host.GRADIENT_PENDING

    def updated(self, block: int) -> None:
        """The optimizer has applied the gradient: the host's weights are new, no gradient waits."""
        self._host[block] = Host.READY

    def gradient_dropped(self, block: int) -> None:
        """The gradient gathered so far will not be applied: its step is done again."""
        self._open_grads[block] = 0
        self._grad[block] = DeviceGrad.NONE
        self._host[block] = Host.READY

    def maps(self) -> dict[MapId, bytes]:
        """The states as a residency frame takes them."""
        return {
            MapId.DEVICE_WEIGHT: bytes(self._weight),
            MapId.DEVICE_GRAD: bytes(self._grad),
            MapId.HOST: bytes(self._host),
        }

    def _move(self, block: int, old: DeviceWeight, new: DeviceWeight) -> None:
        if self._weight[block] != old:
            raise IllegalResidency(
                f"block {block} is {self.weight(block).name}, not {old.name}: it can't become {new.name}"
            )
        self._weight[block] = new
