"""The binary residency frame, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.contracts.residency import Direction, FrameHeader, MapId, decode_frame, encode_frame, frame_bytes


def header(num_blocks: int) -> FrameHeader:
    return FrameHeader(
        time_us=1_700_000_000_000_000, step=7, compute_step=3, stage=2, direction=Direction.BACKWARD, window=3,
        num_blocks=num_blocks, slots_used=5,
    )  # fmt: skip


@given(st.lists(st.integers(0, 3), max_size=70))
def test_frame_round_trip_keeps_header_and_every_state(states: list[int]) -> None:
    maps = {MapId.DEVICE_WEIGHT: bytes(states), MapId.HOST: bytes(reversed(states))}
    frame = encode_frame(header(len(states)), maps)
    assert len(frame) == frame_bytes(len(states), 2)
    assert decode_frame(frame) == (header(len(states)), maps)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), max_size=70))
def test_frame_with_a_disk_map_is_one_map_longer_and_reads_the_same(blocks: list[tuple[int, ...]]) -> None:
    columns = [bytes(column) for column in zip(*blocks, strict=True)] or [b""] * 4
    with_disk = dict(zip(MapId, columns, strict=True))
    without = {key: states for key, states in with_disk.items() if key is not MapId.DISK}
    head = header(len(blocks))
    assert decode_frame(encode_frame(head, without)) == (head, without)
    assert decode_frame(encode_frame(head, with_disk)) == (head, with_disk)
    assert len(encode_frame(head, with_disk)) == frame_bytes(len(blocks), 4)


@pytest.mark.parametrize("damage", ["cut", "header cut", "magic", "empty"])
def test_frame_that_is_none_is_refused(damage: str) -> None:
    frame = encode_frame(header(9), {MapId.HOST: bytes(9)})
    damaged = {"cut": frame[:-1], "header cut": frame[:20], "magic": b"XXXX" + frame[4:], "empty": b""}[damage]
    with pytest.raises(ValueError, match="frame"):
        decode_frame(damaged)
