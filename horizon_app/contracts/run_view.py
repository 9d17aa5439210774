"""Runs as they are shown: list item, detail, pages, series. What REST answers and the command line prints."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from horizon_app.contracts.events import RunOutcome
from horizon_app.contracts.knobs import Knob, KnobValue
from horizon_app.contracts.residency import BlockLayout
from horizon_app.contracts.run_state import Cause, RunState


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ModelSummary(_View):
    """The model of a run in a few words."""

    name: str
    architecture: str | None = None
    parameters: int | None = Field(default=None, description="elements of all weights")


class Run(_View):
    """One run as the history lists it."""

    id: str
    name: str
    tags: list[str]
    notes: str
    state: RunState
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None = Field(
        default=None,
        description="seconds that it has had a worker, over all its lives, on a clock that nobody sets; of a live "
        "run until it last told something",
    )
    device: str | None
    model: ModelSummary
    step: int = Field(description="optimizer steps done")
    total_steps: int | None
    metrics: dict[str, float | None] = Field(description="last value of each metric; null where it was not finite")
    sparkline: list[float | None] = Field(description="at most 32 losses, evenly spaced over the run")
    last_seq: int = Field(description="place of the newest event in the run's stream")
    resumable: bool = Field(description="whether it has ended before its end, and goes on when it is resumed")
    cause: Cause | None = Field(description="what ended a run that did not end by itself")
    exit_status: int | None = Field(description="exit code of its worker, negative for a signal, where it is known")
    knobs_version: int = Field(description="number of the newest change of a knob; to be sent as If-Match")
    held: bool = Field(default=False, description="whether it keeps its place in the queue without starting")
    queue_device: str = Field(default="cpu", description="the device whose queue it belongs to")
    queue_position: int | None = Field(default=None, description="place in that queue, from 1; null unless queued")
    archived_at: datetime | None = Field(default=None, description="since when it is put away")
    cloned_from: str | None = Field(default=None, description="the run whose spec it started from")


class Checkpoint(_View):
    """One checkpoint folder of a run."""

    step: int
    path: str = Field(description="folder, relative to the run's folder")
    bytes: int
    time: datetime | None = Field(default=None, description="when it was written, where it can still tell")
    eval_loss: float | None = Field(default=None, description="of these very weights, where it was measured")
    nonfinite: int = Field(default=0, description="values in it that are NaN or infinite")
    best: bool = Field(default=False, description="whether it has the lowest eval loss; it is never rotated away")
    pinned: bool = Field(default=False, description="whether somebody keeps it from being rotated away")
    broken: str = Field(default="", description="why it can't be used; empty where it is whole")


class CheckpointsAnswer(_View):
    """The checkpoints of a run, by step."""

    checkpoints: list[Checkpoint]


class Segment(_View):
    """One worker's part of a run, from its start or a resumption to its end."""

    number: int = Field(description="counted from 1")
    started_at: datetime
    ended_at: datetime | None
    first_step: int | None = Field(description="first optimizer step it did; null while none is known")
    last_step: int | None = Field(description="last optimizer step it did; null while it runs, and where it did none")
    void_after: int | None = Field(description="a later segment did the steps behind this one again; null: none did")
    state: RunState | None = Field(description="how it ended; null while it runs")
    reason: str


class RunDetail(Run):
    """One run with all that is known of it."""

    knobs: dict[Knob, KnobValue | None] = Field(
        description="value in force of each knob; null where it is decided when the model is built"
    )
    spec: dict[str, Any] = Field(description="with every default filled in")
    asked: Any = Field(default=None, description="the spec as it was sent; null for runs from before that was kept")
    plan: dict[str, Any] | None = Field(description="data of the plan event: resolved values, bytes per tier")
    layout_ready: bool = Field(description="whether the residency map can be asked for")
    outcome: RunOutcome | None
    segments: list[Segment] = Field(default_factory=list[Segment], description="what each of its workers did, in order")
    checkpoints: list[Checkpoint]


class RunPage(_View):
    """A page of the history."""

    runs: list[Run]
    next_cursor: str | None = Field(description="give this as `cursor` for the next page; null on the last one")
    total: int = Field(description="runs that match all filters")
    counts: dict[RunState, int] = Field(description="runs in each state that match the filters other than the state")


class DeviceQueue(_View):
    """What one device does and what waits for it."""

    device: str
    live: list[Run] = Field(description="runs that may have a worker there now")
    queued: list[Run] = Field(description="runs that wait, in order; held ones keep their place")


class QueueAnswer(_View):
    """The queues of all devices that have something to do."""

    devices: list[DeviceQueue]


class Freed(_View):
    """What a deletion gave back."""

    freed_bytes: int = Field(description="on the disk; files that have another name outside of the run count as none")
    left_bytes: int = Field(default=0, description="what could not be removed; the server's next start tries again")
    left_in: str = Field(default="", description="where that lies, and why it stayed")


class Series(_View):
    """One metric over optimizer steps."""

    x: list[int] = Field(description="optimizer steps")
    y: list[float | None] = Field(description="values; null where not finite")


class SupersededSeries(_View):
    """What a segment measured of steps that a later one did again."""

    segment: int
    series: dict[str, Series]


class SeriesAnswer(_View):
    """Metrics of a run, thinned to minimum, maximum and last of each bucket."""

    series: dict[str, Series]
    nonfinite: dict[str, list[tuple[int, Literal["nan", "inf", "-inf"]]]] = Field(
        description="steps at which a metric was not finite, and how"
    )
    superseded: list[SupersededSeries] = Field(
        default_factory=list[SupersededSeries],
        description="where asked for: what was measured before it was done again",
    )


class ResidencyAnswer(_View):
    """The residency map at a moment."""

    layout: BlockLayout
    frame: str | None = Field(description="base64 of one binary frame; null where none was recorded yet")


class LogLine(_View):
    """One log line of a run."""

    seq: int
    time: datetime
    level: Literal["debug", "info", "warning", "error"]
    message: str


class LogAnswer(_View):
    """Log lines of a run."""

    lines: list[LogLine]
    scanned_to: int | None = Field(
        default=None,
        description="place up to which the log was looked through: go on from it with `after` (with `before`, where "
        "`after` was left out); null where there is nothing further to look at",
    )
    last_seq: int = Field(
        description="place of the newest event of the run; ask again with `after` set to the last line's"
    )
