"""The block layout and the binary residency frame: who has which block, two bits a block and map.

A frame is little-endian: a 40-byte header, one byte per map with the map's id, then each map's states, packed four to a
byte, lowest bits first, each map padded to a whole byte. Which maps a frame holds is told by the ids alone: frames of a
run without a disk tier, and old recordings, have no DISK map. All frames of one recording hold the same maps.

    offset  type  field
    0       4s    magic "HZRF"
    4       u16   version (1)
    6       u16   number of maps
    8       u64   time, microseconds since 1970 UTC
    16      u32   optimizer step, counted from 1
    20      u32   compute step within the optimizer step, from 0
    24      u32   stage the compute step works on
    28      u8    direction: 0 forward, 1 backward, 2 update
    29      u8    prefetch window, compute steps
    30      u16   reserved, 0
    32      u32   number of blocks
    36      u32   slots of the arena in use
"""

import struct
from collections.abc import Mapping
from enum import IntEnum

from pydantic import BaseModel, ConfigDict, Field

MAGIC = b"HZRF"
VERSION = 1
_HEADER = struct.Struct("<4sHHQIIIBBHII")
HEADER_BYTES = _HEADER.size


class MapId(IntEnum):
    """What a map of a frame tells of each block."""

    DEVICE_WEIGHT = 1  # 0 absent, 1 arriving, 2 ready, 3 in use
    DEVICE_GRAD = 2  # 0 none, 1 being written, 2 leaving for the host
    HOST = 3  # 0 absent (on disk only), 1 arriving from disk, 2 ready, 3 ready with a gradient not applied yet
    DISK = 4  # 0 nothing of the block, 1 being read to the host, 2 at rest: a plane lives there only, 3 being written


class Direction(IntEnum):
    """What a compute step does with its stage."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


class StageLayout(BaseModel):
    """One stage and its run of blocks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="for example embed, L0, head")
    first_block: int
    num_blocks: int


class BlockFacts(BaseModel):
    """One block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: int
    parameters: list[str] = Field(
        description="names of the parameters that it holds wholly or in part, within the stage"
    )
    elements: int
    bytes: int = Field(description="bytes used of the block, in the compute dtype")


class BlockLayout(BaseModel):
    """Every block of a run, in order: what a residency frame's positions mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_bytes: int
    max_device_blocks: int = Field(description="slots of the arena")
    device: str = Field(description="cpu or cuda:0")
    compute_dtype: str
    parameters: int = Field(description="elements of the whole model")
    stages: list[StageLayout]
    blocks: list[BlockFacts]


class FrameHeader(BaseModel):
    """The head of a residency frame, decoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time_us: int
    step: int
    compute_step: int
    stage: int
    direction: Direction
    window: int
    num_blocks: int
    slots_used: int


def pack_states(states: bytes | bytearray) -> bytes:
    """Pack one state (0..3) a byte into four states a byte."""
    padded = bytes(states) + bytes(-len(states) % 4)
    a, b, c, d = padded[0::4], padded[1::4], padded[2::4], padded[3::4]
    value = (
        int.from_bytes(a, "little")
        | int.from_bytes(b, "little") << 2
        | int.from_bytes(c, "little") << 4
        | int.from_bytes(d, "little") << 6
    )
    return value.to_bytes(len(padded) // 4, "little")


def unpack_states(packed: bytes, num_blocks: int) -> bytes:
    """The reverse of `pack_states`."""
    out = bytearray(len(packed) * 4)
    for shift in range(4):
        out[shift::4] = bytes((byte >> (2 * shift)) & 3 for byte in packed)
    return bytes(out[:num_blocks])


def encode_frame(header: FrameHeader, maps: Mapping[MapId, bytes | bytearray]) -> bytes:
    """One binary frame; each map holds one state (0..3) a byte, `num_blocks` of them."""
    head = _HEADER.pack(
        MAGIC, VERSION, len(maps), header.time_us, header.step, header.compute_step, header.stage,
        int(header.direction), header.window, 0, header.num_blocks, header.slots_used,
    )  # fmt: skip
    return head + bytes(int(key) for key in maps) + b"".join(pack_states(states) for states in maps.values())


def frame_bytes(num_blocks: int, num_maps: int) -> int:
    """Length of a frame in bytes."""
    return HEADER_BYTES + num_maps + num_maps * ((num_blocks + 3) // 4)


def decode_header(data: bytes) -> tuple[FrameHeader, int]:
    """The header of a frame and its number of maps. Raises ValueError on anything that is not a frame."""
    if len(data) < HEADER_BYTES:
        raise ValueError(f"residency frame of {len(data)} bytes, the header alone has {HEADER_BYTES}")
    magic, version, maps, time_us, step, cstep, stage, direction, window, _, blocks, used = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"not a residency frame of version {VERSION}: magic {magic!r}, version {version}")
    header = FrameHeader(
        time_us=time_us, step=step, compute_step=cstep, stage=stage, direction=Direction(direction), window=window,
        num_blocks=blocks, slots_used=used,
    )  # fmt: skip
    return header, maps


def decode_frame(data: bytes) -> tuple[FrameHeader, dict[MapId, bytes]]:
    """Header and maps of a frame, one state a byte. Raises ValueError on anything that is not a whole frame."""
    header, num_maps = decode_header(data)
    if len(data) != frame_bytes(header.num_blocks, num_maps):
        raise ValueError(f"residency frame of {len(data)} bytes, expected {frame_bytes(header.num_blocks, num_maps)}")
    size = (header.num_blocks + 3) // 4
    start = HEADER_BYTES + num_maps
    maps = {
        MapId(data[HEADER_BYTES + i]): unpack_states(data[start + i * size : start + (i + 1) * size], header.num_blocks)
        for i in range(num_maps)
    }
    return header, maps
