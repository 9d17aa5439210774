"""The two parts that a session puts together, the data and the engine, and the makers of the real ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from horizon_app.contracts.events import PeakUse
from horizon_app.contracts.run_spec import DataSpec, RunSpec
from horizon_app.data.batches import BatchSource
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.worker.checkpoints import Snapshot
from horizon_app.worker.knob_request import LiveEngine
from horizon_app.worker.order import DataPaths


class TrainingData(Protocol):
    """The rows of a run, tokenised and packed."""

    @property
    def num_samples(self) -> int:
        """Samples in the files."""
        ...

    @property
    def num_sequences(self) -> int:
        """Sequences after packing."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens in all sequences, padding left out."""
        ...

    @property
    def num_trained_tokens(self) -> int:
        """Tokens that count in the loss."""
        ...

    @property
    def skipped(self) -> int:
        """Samples that hold nothing to train on."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What the user should know about the data."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of the sequences."""
        ...

    def source(self, global_batch_size: int) -> BatchSource:
        """The batches, by optimizer step."""
        ...

    def steps_of_epochs(self, epochs: float, global_batch_size: int) -> int:
        """Optimizer steps of that many passes."""
        ...


class TrainingEngine(LiveEngine, Protocol):
    """A model in memory, ready to train."""

    @property
    def plan_facts(self) -> Mapping[str, Any]:
        """The resolved values of the spec and the bytes of each tier."""
        ...

    def train(
        self,
        source: BatchSource,
        total_steps: int,
        should_stop: Callable[[], bool],
        on_step: Callable[[int], None],
    ) -> int:
        """Train until `total_steps` or until `should_stop` says so between two steps; gives the steps done."""
        ...

    def peaks(self) -> PeakUse:
        """Highest use of each tier until now."""
        ...

    @property
    def checkpoint_bytes(self) -> int:
        """Room that a checkpoint takes on disk: an upper estimate."""
        ...

    def snapshot(self) -> Snapshot:
        """Its state between two optimizer steps, to be written beside the training that follows."""
        ...

    def restore(self, folder: Path) -> int:
        """Go on from the checkpoint in `folder`, whose model it was built from; gives the optimizer step.

        Raises EngineError.
        """
        ...

    def close(self) -> None:
        """Give the memory back and end the engine's threads."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Builders:
    """How a session gets its parts."""

    data: Callable[[DataSpec, DataPaths, Path], TrainingData]
    """From the data section, the files and the tokenizer's folder."""
    engine: Callable[[RunSpec, Path, Path, TelemetrySink], TrainingEngine]
    """From the spec, the model's folder, the disk tier's folder and the sink."""


def real_builders() -> Builders:
    """The builders of the product; torch and transformers are imported when they are called."""
    return Builders(data=_load_data, engine=_build_engine)


def _load_data(spec: DataSpec, paths: DataPaths, tokenizer_dir: Path) -> TrainingData:
    from horizon_app.data.dataset import load_dataset  # transformers takes seconds

    return load_dataset(
        spec, paths=paths.train, eval_paths=paths.evaluation, tokenizer_dir=tokenizer_dir, cache_dir=paths.cache_dir
    )


def _build_engine(spec: RunSpec, model_dir: Path, disk_dir: Path, sink: TelemetrySink) -> TrainingEngine:
    from horizon_app.engine.training.engine import Engine, EngineConfig  # torch takes seconds

    return Engine(EngineConfig.from_spec(spec, model_dir, disk_dir), sink)
