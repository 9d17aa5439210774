"""Engines on tiny checkpoints, as tests build them: a spec's words, a backend in disorder, poisoned slots."""

import dataclasses
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.data.batches import BatchSource
from horizon_app.engine.errors import TierExhausted
from horizon_app.engine.memory.disk_io import OS_DISK, DiskSystem
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.telemetry.sink import NullSink, TelemetrySink
from horizon_app.engine.training.config import EngineConfig
from horizon_app.engine.training.engine import Engine
from tests.support.chaos import ChaosBackend, poison
from tests.support.tiny_models import TOKENS

Sections = Mapping[str, Mapping[str, Any]]


def spec_document(**sections: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as a test wants it: fp32 on the CPU unless `sections` say otherwise."""
    document: dict[str, dict[str, Any]] = {
        "model": {"path": "unused"},
        "data": {"path": "unused", "sequence_length": TOKENS},
        "training": {"global_batch_size": 4, "learning_rate": 1e-3, "warmup_steps": 3, "weight_decay": 0.1},
        "precision": {"compute": "fp32"},
        "offload": {"device": "cpu"},
    }
    for name, fields in sections.items():
        document[name] = {**document.get(name, {}), **fields}
    return document


def engine_config(folder: Path, *, disk_dir: Path | None = None, **sections: Mapping[str, Any]) -> EngineConfig:
    """The config that `sections` of a spec make of a model folder; the disk tier lies there too unless told."""
    return EngineConfig.from_spec(parse_spec(spec_document(**sections)), folder, disk_dir or folder)


NOTHING: Mapping[str, Any] = {}


class NotingSink(NullSink):
    """Keeps notes, changed knobs and log lines."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str, dict[str, Any]]] = []
        self.lines: list[tuple[str, str]] = []
        self.knobs: list[KnobChanged] = []

    def knob(self, change: KnobChanged) -> None:
        self.knobs.append(change)

    def note(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        self.notes.append((kind, message, dict(data)))

    def log(self, level: str, message: str) -> None:
        self.lines.append((level, message))

    def data_of(self, kind: str) -> list[dict[str, Any]]:
        """What was noted of one kind, in order."""
        return [data for noted, _, data in self.notes if noted == kind]


@contextmanager
def running(
    folder: Path, *, backend: Backend | None = None, seed: int = 0, disk_dir: Path | None = None,
    disk_system: DiskSystem = OS_DISK, sink: TelemetrySink | None = None, overrides: Mapping[str, Any] = NOTHING,
    **sections: Mapping[str, Any],
) -> Generator[Engine]:  # fmt: skip
    """An engine whose copies come in disorder and whose free slots hold NaN; closed at the end.

    `overrides` are fields of the config that no spec names.
    """
    config = dataclasses.replace(engine_config(folder, disk_dir=disk_dir, **sections), **overrides)
    engine = Engine(
        config, sink or NullSink(), backend=backend or ChaosBackend(seed), on_slot_release=poison,
        disk_system=disk_system,
    )  # fmt: skip
    try:
        yield engine
    finally:
        engine.close()


def train(engine: Engine, source: BatchSource, steps: int) -> list[dict[str, float]]:
    """The metrics of each step."""
    metrics: list[dict[str, float]] = []
    engine.train(source, steps, lambda: False, lambda _: metrics.append(dict(engine.last_metrics)))
    return metrics


def weights_of(engine: Engine) -> dict[str, torch.Tensor]:
    """A copy of every master."""
    return {name: engine.parameter(name).clone() for name in engine.parameter_names}


def least_host_memory(folder: Path, **sections: Mapping[str, Any]) -> int:
    """Bytes of the smallest host tier that the engine takes, as its refusal names them."""
    config = dataclasses.replace(engine_config(folder, disk_dir=folder, **sections), host_limit_bytes=1)
    with pytest.raises(TierExhausted) as refused:
        Engine(config, NullSink())
    return refused.value.needed_bytes


def spoil(engine: Engine, name: str, *place: int) -> None:
    """Put NaN into a weight."""
    weight = engine.parameter(name)
    weight[place] = float("nan")
    engine._pool.write(engine._partition.by_name[name], weight)
