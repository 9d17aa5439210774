"""Engines on tiny checkpoints, as tests build them: a spec's words, a backend in disorder, poisoned slots."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.data.batches import BatchSource
from horizon_app.engine.streaming.backends.protocol import Backend
from horizon_app.engine.telemetry.sink import NullSink
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


def engine_config(folder: Path, **sections: Mapping[str, Any]) -> EngineConfig:
    """The config that `sections` of a spec make of a model folder."""
    return EngineConfig.from_spec(parse_spec(spec_document(**sections)), folder, folder)


@contextmanager
def running(
    folder: Path, *, backend: Backend | None = None, seed: int = 0, **sections: Mapping[str, Any]
) -> Generator[Engine]:
    """An engine whose copies come in disorder and whose free slots hold NaN; closed at the end."""
    engine = Engine(
        engine_config(folder, **sections), NullSink(), backend=backend or ChaosBackend(seed), on_slot_release=poison
    )
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
