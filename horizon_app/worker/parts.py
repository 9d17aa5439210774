"""The two parts that a session puts together, the data and the engine, and the makers of the real ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from horizon_app.contracts.data_spec import DataSpec
from horizon_app.contracts.events import PeakUse
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.data.batches import Batch, BatchSource
from horizon_app.engine.telemetry.sink import TelemetrySink
from horizon_app.engine.training.requests import Continuation, Evaluation, OnTokens, Sampling
from horizon_app.worker.checkpoints import Snapshot
from horizon_app.worker.heeding_import import import_heeding_stop
from horizon_app.worker.knob_request import TakesChanges
from horizon_app.worker.order import DataPaths

ShouldStop = Callable[[], bool]
"""Whether what is being made is wanted no more; asked often."""


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

    @property
    def num_eval_sequences(self) -> int:
        """Sequences that are held out for the eval loss; 0: none."""
        ...

    def eval_batches(self, sequences: int) -> Iterator[Batch]:
        """All held-out sequences, at most `sequences` at a time, in an order that never changes."""
        ...


class TrainingEngine(TakesChanges, Protocol):
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

    def evaluate(self, batches: Iterable[Batch]) -> Evaluation:
        """The loss on held-out batches; training goes on after it as if nothing had been. Passes on what they raise."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, on_tokens: OnTokens = ...
    ) -> Sequence[Continuation]:
        """New tokens behind each prompt; `on_tokens` answers after each whether to go on."""
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

    def settle(self) -> None:
        """Return once nothing is left to be computed of the steps done. Raises EngineError."""
        ...

    def close(self) -> None:
        """Give the memory back and end the engine's threads."""
        ...


class Writer(Protocol):
    """Turns prompts into tokens, and tokens into text."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end what the model writes."""
        ...

    def prompt(self, text: str) -> list[int]:
        """The tokens of a prompt, ready to be continued."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What generated tokens say, marks left out."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Builders:
    """How a session gets its parts."""

    data: Callable[[DataSpec, DataPaths, Path, ShouldStop], TrainingData]
    """From the data section, the files and the tokenizer's folder. Raises DataStopped, ImportStopped."""
    engine: Callable[[RunSpec, Path, Path, TelemetrySink, ShouldStop], TrainingEngine]
    """From the spec, the model's folder, the disk tier's folder and the sink. Raises BuildStopped, ImportStopped."""
    writer: Callable[[DataSpec, Path], Writer]
    """From the data section and the model's folder."""


def real_builders() -> Builders:
    """The builders of the product; torch and transformers are imported when they are called."""
    return Builders(data=_load_data, engine=_build_engine, writer=_load_writer)


def _load_data(spec: DataSpec, paths: DataPaths, tokenizer_dir: Path, should_stop: ShouldStop) -> TrainingData:
    import_heeding_stop("transformers.models.auto.tokenization_auto", should_stop)  # seconds, with torch
    from horizon_app.data.dataset import load_dataset

    return load_dataset(
        spec, paths=paths.train, eval_paths=paths.evaluation, tokenizer_dir=tokenizer_dir, cache_dir=paths.cache_dir,
        should_stop=should_stop,
    )  # fmt: skip


def _load_writer(spec: DataSpec, model_dir: Path) -> Writer:
    from horizon_app.worker.prompts import load_prompt_writer  # transformers takes seconds

    return load_prompt_writer(model_dir, spec.chat_template)


def _build_engine(
    spec: RunSpec, model_dir: Path, disk_dir: Path, sink: TelemetrySink, should_stop: ShouldStop
) -> TrainingEngine:
    import_heeding_stop("horizon_app.engine.training.engine", should_stop)  # seconds
    from horizon_app.engine.training.engine import Engine, EngineConfig

    return Engine(EngineConfig.from_spec(spec, model_dir, disk_dir), sink, should_stop=should_stop)
