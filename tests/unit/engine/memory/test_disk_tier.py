"""Several stores under one limit, and what they moved together."""

from pathlib import Path

import pytest

from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_store import new_buffer
from horizon_app.engine.memory.disk_tier import DiskTier

PAGE = 8192
FILE = 2 * (PAGE + 4096)


def test_disk_tier_without_a_store_touches_no_disk(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path / "never", limit_bytes=0)
    assert (tier.is_used, tier.is_direct, tier.file_bytes, tier.bytes_read, tier.bytes_written) == (
        False, None, 0, 0, 0,
    )  # fmt: skip
    tier.close()
    assert not (tmp_path / "never").exists()


def test_disk_tier_limit_holds_for_all_its_stores_together(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, limit_bytes=2 * FILE - 1)
    first = tier.new_store([PAGE, PAGE])
    with pytest.raises(TierExhausted, match=f"offload.disk_memory to {2 * FILE} bytes") as refusal:
        tier.new_store([PAGE, PAGE])
    assert (refusal.value.tier, refusal.value.needed_bytes, refusal.value.free_bytes) == (
        "disk",
        2 * FILE,
        2 * FILE - 1,
    )
    first.close()
    second = tier.new_store([PAGE, PAGE])
    assert tier.file_bytes == second.file_bytes == FILE
    tier.close()
    assert tier.file_bytes == 0


def test_disk_tier_counts_what_closed_stores_have_moved(tmp_path: Path) -> None:
    tier, buffer = DiskTier(tmp_path), new_buffer(PAGE)
    first, second = tier.new_store([PAGE]), tier.new_store([PAGE])
    first.write(0, buffer).wait()
    first.close()
    second.write(0, buffer).wait()
    second.read(0, buffer).wait()
    second.drain()
    assert (tier.bytes_written, tier.bytes_read) == (FILE, FILE // 2)
    tier.close()
    assert tier.is_used
