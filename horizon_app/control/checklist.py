"""The checklist of a run: diagnosed while it lives and once at its end, kept, and told of where a verdict changes."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from horizon_app.contracts.checks import Verdict, worst
from horizon_app.contracts.events import MEMORY_RAN_OUT, CheckChanged
from horizon_app.contracts.knobs import Knob, KnobStatus
from horizon_app.contracts.run_checks import Finding, RunCheck, RunChecks
from horizon_app.contracts.run_state import ENDED, LIVE, Cause
from horizon_app.control.diagnosis.facts import RECENT_STEPS, Curve, MemoryFacts, RunFacts, Shortage
from horizon_app.control.diagnosis.report import diagnose
from horizon_app.control.errors import RunNotFound
from horizon_app.control.knob_values import ranges
from horizon_app.control.lifecycle import read_run, tell
from horizon_app.control.memory import memory_here
from horizon_app.control.run_folder import RunFolder
from horizon_app.store.checks import checks_of, keep_checks
from horizon_app.store.database import Database, Transaction
from horizon_app.store.events import facts_saying
from horizon_app.store.knobs import changes_of
from horizon_app.store.metrics import StoredSeries, series
from horizon_app.store.runs import StoredOrder, StoredRun, get_order, get_run

EVERY_S = 2.0
_LONGEST_SHARE = 1 / 50
"""Of the time of whoever diagnoses: where the database is slow, it is done less often."""
_SETTLED_STEPS = 20
"""Steps that a verdict counts at least, unless it becomes worse."""
_SHORTAGES = 100
_CURVE_POINTS = 600
_CURVES = ("train/loss", "train/grad_norm")
_RECENT = (
    *_CURVES, "eval/loss", "train/loss_scale", "train/skipped_steps", "time/step", "time/stall", "prefetch/hit_rate",
    "prefetch/late_rate", "prefetch/miss_rate", "prefetch/optimal_hit_rate", "throughput/tokens_per_second",
    "accumulation/micro_batch_size", "transfer/host_to_device",
)  # fmt: skip
_OF_TRANSFERS = {Knob.PREFETCH_WINDOW, Knob.MAX_GPU_BLOCKS, Knob.POLICY}


class ChecklistPace:
    """Keeps the checklist of one live run up to date: where it has got on, and only every few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._next_at = 0.0

    def look(self, database: Database, run: StoredRun, folder: RunFolder) -> bool:
        """Diagnose the run where it is due, and say whether it was: its row may be another one then."""
        stands, begin = (run.segment, run.step, run.knobs_version), self._clock()
        if run.state not in LIVE or stands == self._seen or begin < self._next_at:
            return False
        with database.write() as tx:
            now = get_run(tx, run.id, lock=True)
            if now is not None and now.state in LIVE:  # an ended run was looked at by whoever saw its end
                update_checklist(tx, now, peak_bytes=folder.peak_bytes())
        took = self._clock() - begin
        self._seen, self._next_at = stands, begin + max(EVERY_S, took / _LONGEST_SHARE)
        return True


def update_checklist(tx: Transaction, run: StoredRun, *, peak_bytes: int | None = None) -> None:
    """Diagnose a locked run, keep what was found, and tell of verdicts that changed where it matters.

    `peak_bytes` is the most that its worker ever held.
    """
    before = {check.id: check for check in checks_of(tx, run.id)}
    checks, events = list[RunCheck](), list[CheckChanged]()
    for finding in _diagnosed(tx, run, peak_bytes):
        last = before.get(finding.id)
        check = last if last is not None and _is_early(run, finding, last) else _dated(finding, last)
        events += _news(check, Verdict.UNKNOWN if last is None else last.verdict)
        checks.append(check)
    keep_checks(tx, run.id, checks)
    if events:
        tell(tx, run, *events)


def checklist(tx: Transaction, run_id: str) -> RunChecks:
    """The checklist as it was kept; of a run that nobody looked at yet, as it is now. Raises RunNotFound."""
    run = read_run(tx, run_id)
    checks = checks_of(tx, run_id) or [_undated(finding) for finding in _diagnosed(tx, run, None)]
    return RunChecks(run_id=run_id, state=run.state, verdict=worst(checks), checks=checks)


def _dated(finding: Finding, before: RunCheck | None) -> RunCheck:
    if before is not None and before.verdict is finding.verdict:
        past = {"since": before.since, "since_step": before.since_step, "changes": before.changes}
    else:
        changes = 0 if before is None else before.changes + 1
        past = {"since": datetime.now(UTC), "since_step": finding.step, "changes": changes}
    return RunCheck.model_validate({**finding.model_dump(), **past})


def _undated(finding: Finding) -> RunCheck:
    return RunCheck.model_validate({**finding.model_dump(), "since": None, "since_step": None, "changes": 0})


def _is_early(run: StoredRun, finding: Finding, before: RunCheck) -> bool:
    """Whether a verdict is milder than one that this worker has only just come to: near a limit it must not flicker."""
    order = list(Verdict)
    milder = Verdict.UNKNOWN is not finding.verdict and order.index(finding.verdict) < order.index(before.verdict)
    if not milder or run.state in ENDED or before.since is None or run.started_at is None:
        return False
    return before.since > run.started_at and 0 <= finding.step - (before.since_step or 0) < _SETTLED_STEPS


def _news(check: RunCheck, old: Verdict) -> list[CheckChanged]:
    """What is told of a check: nothing where it is what it was, or where nothing has to be done, as before."""
    new = check.verdict
    if old is new or not (old.asks_for_something or new.asks_for_something):
        return []
    event = CheckChanged(
        check=check.id, title=check.title, old=old, new=new, step=check.step, evidence=check.evidence,
        threshold=check.threshold, fix=check.fix,
    )  # fmt: skip
    return [event]


def _diagnosed(tx: Transaction, run: StoredRun, peak_bytes: int | None) -> list[Finding]:
    order = get_order(tx, run.id)
    if order is None:
        raise RunNotFound(run.id)
    return diagnose(_facts(tx, run, order, peak_bytes))


def _facts(tx: Transaction, run: StoredRun, order: StoredOrder, peak_bytes: int | None) -> RunFacts:
    first = max(0, run.step - RECENT_STEPS + 1)
    recent = series(tx, run.id, _RECENT, first=first, last=None, max_points=RECENT_STEPS)
    history = series(tx, run.id, _CURVES, first=None, last=None, max_points=_CURVE_POINTS)
    return RunFacts(
        state=run.state, step=run.step, reason=run.reason, cause=None if run.cause is None else Cause(run.cause),
        spec=order.spec, asked=order.asked, plan=order.plan or {}, knobs=ranges(order.spec, order.plan, run.knobs),
        judged_from=_judged_from(tx, run), recent=_curves(recent), history=_curves(history),
        shortages=_shortages(tx, run.id), memory=_memory(run, order, peak_bytes),
    )  # fmt: skip


def _curves(found: Mapping[str, StoredSeries]) -> dict[str, Curve]:
    return {key: Curve(steps=one.steps, values=one.values) for key, one in found.items()}


def _judged_from(tx: Transaction, run: StoredRun) -> int:
    """The first step since which blocks travel as they do now."""
    changes = [change for change in changes_of(tx, run.id) if change.knob in _OF_TRANSFERS]
    if any(change.status is KnobStatus.ASKED for change in changes):
        return run.step + 1
    return max((change.step or 0 for change in changes if change.status is KnobStatus.HOLDS), default=0)


def _shortages(tx: Transaction, run_id: str) -> Sequence[Shortage]:
    found: list[Shortage] = []
    for fact in facts_saying(tx, run_id, MEMORY_RAN_OUT, limit=_SHORTAGES):
        step, old, new = (fact["data"].get(name) for name in ("step", "old", "new"))
        if isinstance(step, int) and isinstance(old, int) and isinstance(new, int):
            found.append(Shortage(step=step, old=old, new=new))
    return found


def _memory(run: StoredRun, order: StoredOrder, peak_bytes: int | None) -> MemoryFacts:
    memory = memory_here()
    told = (order.outcome or {}).get("peak", {}).get("resident_bytes")
    peaks = [peak for peak in (told, peak_bytes) if isinstance(peak, int) and peak > 0]
    return MemoryFacts(
        total_bytes=memory.total_bytes, available_bytes=None if run.state in ENDED else memory.available_bytes,
        peak_bytes=max(peaks, default=None),
    )  # fmt: skip
