"""Counters of one optimizer step: accesses, bytes, stalls."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Plain numbers, reset at every optimizer step. hits + late + misses = accesses, always."""

    accesses: int = 0
    hits: int = 0
    late: int = 0
    misses: int = 0
    stall_s: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    fetches: int = 0

    def reset(self) -> None:
        """Start on another optimizer step."""
        self.accesses = self.hits = self.late = self.misses = self.fetches = 0
        self.bytes_in = self.bytes_out = 0
        self.stall_s = 0.0
