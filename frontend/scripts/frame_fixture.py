"""Writes the residency frames that the UI's decoder is tested against; with --check, says whether they are fresh."""

import json
import sys
from base64 import b64encode
from pathlib import Path

from horizon_app.contracts.residency import Direction, FrameHeader, MapId, encode_frame

FIXTURE = Path(__file__).resolve().parents[1] / "src" / "stream" / "frame.fixture.json"
CASES = (
    (0, Direction.FORWARD, True),
    (1, Direction.BACKWARD, False),
    (7, Direction.UPDATE, True),
    (64, Direction.FORWARD, True),
    (64, Direction.BACKWARD, False),
)


def case(num_blocks: int, direction: Direction, has_disk: bool) -> dict[str, object]:
    """One frame with what it says; without a disk tier, and in old recordings, there is no map of it."""
    maps = {
        MapId.DEVICE_WEIGHT: bytes(i % 4 for i in range(num_blocks)),
        MapId.DEVICE_GRAD: bytes(i // 4 % 3 for i in range(num_blocks)),
        MapId.HOST: bytes(3 - i % 4 for i in range(num_blocks)),
    }
    if has_disk:
        maps[MapId.DISK] = bytes(i // 2 % 4 for i in range(num_blocks))
    header = FrameHeader(
        time_us=1_764_000_000_123_456, step=1284, compute_step=17, stage=18, direction=direction, window=4,
        num_blocks=num_blocks, slots_used=238,
    )  # fmt: skip
    return {
        "frame": b64encode(encode_frame(header, maps)).decode(),
        "header": header.model_dump(mode="json"),
        "maps": {key.name: list(states) for key, states in maps.items()},
    }


def main(arguments: list[str]) -> int:
    """Write the fixture, or compare it."""
    cases = [case(*facts) for facts in CASES]
    if "--check" not in arguments:
        FIXTURE.write_text(json.dumps(cases, indent=2) + "\n", encoding="utf-8")
        return 0
    if json.loads(FIXTURE.read_text(encoding="utf-8")) == cases:
        return 0
    sys.stderr.write(f"{FIXTURE.name} is stale; run `npm run types`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
