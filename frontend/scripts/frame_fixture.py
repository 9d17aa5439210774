"""Writes the residency frames that the UI's decoder is tested against, made by the server's own encoder.

    python frontend/scripts/frame_fixture.py [--check]
"""

import base64
import json
import sys
from pathlib import Path

from horizon_app.contracts.residency import Direction, FrameHeader, MapId, encode_frame

FIXTURE = Path(__file__).resolve().parents[1] / "src" / "stream" / "frame.fixture.json"


def case(num_blocks: int, direction: Direction) -> dict[str, object]:
    """One frame with what it says."""
    maps = {
        MapId.DEVICE_WEIGHT: bytes(i % 4 for i in range(num_blocks)),
        MapId.DEVICE_GRAD: bytes(i // 4 % 3 for i in range(num_blocks)),
        MapId.HOST: bytes(3 - i % 4 for i in range(num_blocks)),
    }
    header = FrameHeader(
        time_us=1_764_000_000_123_456, step=1284, compute_step=17, stage=18, direction=direction, window=4,
        num_blocks=num_blocks, slots_used=238,
    )  # fmt: skip
    return {
        "frame": base64.b64encode(encode_frame(header, maps)).decode(),
        "header": header.model_dump(mode="json"),
        "maps": {key.name: list(states) for key, states in maps.items()},
    }


def content() -> str:
    """The whole fixture."""
    cases = [case(0, Direction.FORWARD), case(1, Direction.BACKWARD), case(7, Direction.UPDATE), case(64, Direction.FORWARD)]
    return json.dumps(cases) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if FIXTURE.read_text(encoding="utf-8") == content() else f"{FIXTURE.name} is stale")
    FIXTURE.write_text(content(), encoding="utf-8")
