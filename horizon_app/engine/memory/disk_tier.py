"""The disk tier: one file a store, all of them under one limit, and what they moved together."""

import logging
from collections.abc import Sequence
from pathlib import Path

from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem
from horizon_app.engine.memory.disk_store import DiskStore, bytes_on_disk

_log = logging.getLogger(__name__)


class DiskTier:
    """Makes stores, and counts for all of them, closed ones included."""

    def __init__(self, folder: Path, *, limit_bytes: int | None = None, system: DiskSystem = OS_DISK) -> None:
        """Nothing is made on disk until there is a store."""
        self._folder, self._limit, self._system = folder, limit_bytes, system
        self._stores: list[DiskStore] = []

    def new_store(self, page_bytes: Sequence[int]) -> DiskStore:
        """A store of pages. Raises TierExhausted, DiskFull, DiskUnusable and DiskFailed."""
        needed = sum(map(bytes_on_disk, page_bytes))
        check_disk_limit(self.file_bytes + needed, self._limit)
        store = DiskStore(self._folder, page_bytes, system=self._system)
        if not store.is_direct and self.is_direct is not False:
            _log.warning(
                "%s takes no direct transfers (O_DIRECT): the disk tier goes through the page cache, which is slower "
                "and gives the same numbers", self._folder,
            )  # fmt: skip
        self._stores.append(store)
        return store

    @property
    def is_used(self) -> bool:
        """Whether anything was ever to be kept on disk."""
        return bool(self._stores)

    @property
    def is_direct(self) -> bool | None:
        """Whether transfers pass the page cache by; None where there are none."""
        return all(store.is_direct for store in self._stores) if self._stores else None

    @property
    def file_bytes(self) -> int:
        """Bytes of the files that there are now."""
        return sum(store.file_bytes for store in self._stores if not store.is_closed)

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""
        return sum(store.bytes_read for store in self._stores)

    @property
    def bytes_written(self) -> int:
        """Bytes written so far."""
        return sum(store.bytes_written for store in self._stores)

    def close(self) -> None:
        """Close every store."""
        for store in self._stores:
            store.close()


def check_disk_limit(needed: int, limit: int | None) -> None:
    """Raise TierExhausted where files of `needed` bytes in all are more than `limit`."""
    if limit is not None and limit < needed:
        fix = f"set offload.disk_memory to {needed} bytes or more"
        raise TierExhausted(tier="disk", needed_bytes=needed, free_bytes=limit, fix=fix)
