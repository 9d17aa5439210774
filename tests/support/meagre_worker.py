"""`python -m tests.support.meagre_worker RUN_DIR`: the whole real worker on a machine that gives less than was hoped.

Its disk takes no direct transfers, and page-locking memory fails after the first few pages.
"""

import dataclasses
import sys
from pathlib import Path

from horizon_app.contracts.run_spec import RunSpec
from horizon_app.engine.memory.disk_io import DiskSystem
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.worker.__main__ import end_process, main
from horizon_app.worker.parts import Builders, ShouldStop, TrainingEngine, real_builders
from tests.support.faulty_disk import FaultyDisk

LOCKED_BYTES = 64 << 10


def on_disk(system: DiskSystem) -> Builders:
    """The product's own parts, on that disk."""

    def engine(
        spec: RunSpec, model_dir: Path, disk_dir: Path, sink: TelemetrySink, should_stop: ShouldStop
    ) -> TrainingEngine:
        from horizon_app.engine.training.engine import Engine, EngineConfig

        config = EngineConfig.from_spec(spec, model_dir, disk_dir)
        return Engine(config, sink, disk_system=system, should_stop=should_stop)

    return dataclasses.replace(real_builders(), engine=engine)


class LittleLockedMemory:
    """Stands in for CUDA's page-locking: a number of bytes, and no more."""

    def __init__(self) -> None:
        self.locked: list[int] = []

    def register(self, _address: int, num_bytes: int) -> int:
        if sum(self.locked) + num_bytes > LOCKED_BYTES:
            return 2  # cudaErrorMemoryAllocation
        self.locked.append(num_bytes)
        return 0

    def unregister(self, _address: int) -> int:
        return self.locked.pop()


def _lock_little() -> None:
    from horizon_app.engine.memory import pinning
    from horizon_app.engine.streaming.backends.cpu import CpuBackend

    memory = LittleLockedMemory()
    pinning.register, pinning.unregister = memory.register, memory.unregister
    CpuBackend.pins_host_memory = True


if __name__ == "__main__":
    _lock_little()
    end_process(main(sys.argv[1:], on_disk(FaultyDisk(direct=False))))
