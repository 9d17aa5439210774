"""A history as large as one gets in years, made through the store's and the recorder's own code."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from horizon_app.contracts.events import Event, FactNoted, LogWritten, StateChanged, metrics_event
from horizon_app.contracts.ids import RunId, new_run_id
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state, create_run
from horizon_app.control.recorder import JournalBatch, record_batch
from horizon_app.store.database import Database
from tests.support.stores import new_run, open_store

_BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
_EVENTS_A_BATCH = 20_000
_RUNS_A_COMMIT = 200
NAMES = ("llama-lora", "qwen-sft", "smollm2-facts", "mistral-code", "gemma-chat")
TAGS = ("lora", "sft", "baseline", "nightly", "long-context", "rare")
KEYS = (
    "train/loss", "train/grad_norm", "train/learning_rate", "train/loss_scale", "train/tokens", "eval/loss",
    "eval/perplexity", "throughput/tokens_per_second", "throughput/roofline_fraction", "time/step", "time/stall",
    "prefetch/hit_rate", "prefetch/late_rate", "prefetch/optimal_hit_rate", "tier/device_bytes", "tier/host_bytes",
    "tier/disk_bytes", "transfer/host_to_device", "transfer/device_to_host", "transfer/disk_read",
    "transfer/disk_write", "accumulation/steps", "accumulation/micro_batch_size", "system/cpu", "system/memory",
)  # fmt: skip
SPIKE = 99.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LargeHistory:
    """The runs that are looked at."""

    tall: RunId
    """One metric with all the points; `SPIKE` at one step."""
    wide: RunId
    """As many points over all of `KEYS`."""
    logged: RunId
    """A log of many lines; the first one is an error that holds the word needle."""
    spike_step: int


def build_history(
    home: Path, *, runs: int, points: int, log_lines: int, say: Callable[[str], None] = lambda _line: None
) -> LargeHistory:
    """Fill the home's database: many ended runs, three of which are large, none of them with a worker."""
    spike_step = points * 2 // 3
    with open_store(home) as database:
        for first in range(0, runs - 3, _RUNS_A_COMMIT):
            _add_runs(database, range(first, min(first + _RUNS_A_COMMIT, runs - 3)), _short)
        say(f"{runs - 3} runs of a few steps")
        [tall] = _add_runs(database, range(runs - 3, runs - 2), lambda _: _tall(points, spike_step))
        say(f"{points} points of one metric")
        [wide] = _add_runs(database, range(runs - 2, runs - 1), lambda _: _wide(points // len(KEYS)))
        say(f"{points} points of {len(KEYS)} metrics")
        [logged] = _add_runs(database, range(runs - 1, runs), lambda _: _log(log_lines))
        say(f"{log_lines} log lines")
    return LargeHistory(tall=tall, wide=wide, logged=logged, spike_step=spike_step)


def _add_runs(database: Database, numbers: range, life: Callable[[int], Iterator[Event]]) -> list[RunId]:
    """Runs that are starting, in one transaction, and then what happened to each until its end."""
    added = [new_run(number, **_facts(number)) for number in numbers]
    with database.write() as tx:
        for run in added:
            create_run(tx, run, who="test")
            change_state(tx, run.id, RunState.STARTING, who="test")
    for number, run in zip(numbers, added, strict=True):
        end = StateChanged(state=RunState.FAILED if number % 7 == 0 else RunState.FINISHED)
        _record(database, run.id, itertools.chain([StateChanged(state=RunState.RUNNING)], life(number), [end]))
    return [run.id for run in added]


def _record(database: Database, run_id: str, events: Iterable[Event]) -> None:
    """Through the recorder, as if a worker's journal were caught up with."""
    first, size = 1, 0
    lines = (event.model_dump_json().encode() for event in events)
    while batch := list(itertools.islice(lines, _EVENTS_A_BATCH)):
        size += sum(len(line) + 1 for line in batch)
        record_batch(database, run_id, JournalBatch(first_line=first, end_bytes=size, lines=batch))
        first += len(batch)


def _short(number: int) -> Iterator[Event]:
    yield FactNoted(kind="plan", message="", data={"total_steps": 100, "bytes": {"host": 1 << 30, "device": 1 << 28}})
    for step in (25, 50, 75, 100):
        yield metrics_event(step, dict.fromkeys(KEYS, 4.0 / step + number % 97 / 100))


def _tall(points: int, spike_step: int) -> Iterator[Event]:
    for step in range(1, points + 1):
        yield metrics_event(step, {"train/loss": SPIKE if step == spike_step else 4.0 / math.sqrt(step)})


def _wide(steps: int) -> Iterator[Event]:
    for step in range(1, steps + 1):
        yield metrics_event(step, {key: (number + 1) / step for number, key in enumerate(KEYS)})


def _log(lines: int) -> Iterator[Event]:
    yield LogWritten(level="error", message="the needle")
    for number in range(1, lines):
        text = f"step {number}: loss {4.0 / math.sqrt(number):.4f}, {number * 7 % 1000} tokens/s, nothing of note"
        yield LogWritten(level="debug" if number % 3 == 0 else "info", message=text)


def _facts(number: int) -> dict[str, object]:
    created = _BEGIN + timedelta(minutes=number)
    name = NAMES[number % len(NAMES)]
    tags = [TAGS[number % 5], *(["rare"] if number % 500 == 0 else [])]
    document = {
        "name": f"{name}-{number}", "tags": tags, "model": {"path": f"models/{name}"},
        "data": {"path": "data/train.jsonl"}, "training": {"optimizer_steps": 100},
    }  # fmt: skip
    return {
        "id": new_run_id(created), "created_at": created, "name": f"{name}-{number}", "tags": tags,
        "notes": f"The learning rate of try {number % 37} with the data of day {number % 11}; see the baseline.",
        "spec": RunSpec.model_validate(document).model_dump(mode="json"), "asked": document,
        "model_dir": f"/models/{name}", "model_name": name, "architecture": "LlamaForCausalLM",
        "parameters": 135_000_000, "total_steps": 100,
    }  # fmt: skip
