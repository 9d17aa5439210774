"""Filters: what is written is read again, nothing breaks the reader, and the database finds what a plain loop finds."""

import base64
import json
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_filter import (
    FIELDS,
    Ago,
    AllOf,
    AnyOf,
    Comparison,
    FieldKind,
    Filter,
    FilterRefused,
    Holds,
    Not,
    Words,
    field_kind,
    format_filter,
    spec_keys,
)
from horizon_app.contracts.run_state import RunState
from horizon_app.control.lifecycle import change_state
from horizon_app.store import filter_sql
from horizon_app.store.database import Database
from horizon_app.store.run_list import RunFilter, list_runs
from horizon_app.store.run_values import LastMetrics
from horizon_app.store.runs import update_run
from horizon_app.store.tables import RunTable
from tests.support.stores import add_run, open_store

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPECS: list[dict[str, Any]] = [
    {
        "training": {"learning_rate": 2e-5, "seed": 5},
        "offload": {"policy": "lru", "host_memory": "16GiB", "disk_path": None},
    },
    {"training": {"learning_rate": 1e-3, "seed": 15}, "data": {"path": ["a.jsonl", "b.jsonl"], "packing": False}},
    {"offload": {"host_memory": 5000000, "disk_path": "/scratch"}, "samples": {"prompts": ["Say lora"]}},
    {"data": {"path": "Straße", "packing": True}, "offload": {"host_memory": "auto", "disk_path": "STRASSE"}},
]
WORDS = ("qwen", "Lora", "ä", "Ä", "日本語", "a%b", "_", 'q"x', "lo", "straße", "STRASSE", "/scratch")
NUMBERS = (0.0, 0.5, 2.0, 5.0, 15.0, 2e-5, 1e-3, 16.0 * 2**30, 5e6)
METRICS = ("eval/loss", "train/loss", "time/step")
SPEC_FIELDS = (
    "training.learning_rate", "training.seed", "offload.policy", "offload.host_memory", "offload.disk_path",
    "data.packing", "data.path", "samples.prompts",
)  # fmt: skip
OPERATORS = ("<", "<=", ">", ">=", "=", "!=")
DAYS = [date(2026, 11, 28), date(2026, 11, 29), date(2026, 11, 30)]
MOMENTS = [NOW - timedelta(hours=hours) for hours in (0, 1, 12, 24, 36)]
FROM_THE_TOP = base64.urlsafe_b64encode(
    json.dumps(["created_at", "9000-01-01T00:00:00+00:00", "", NOW.isoformat()]).encode()
).decode()
"""A cursor before the youngest run, which has the list asked at `NOW`."""


@st.composite
def leaves(draw: st.DrawFn) -> Filter:
    word = draw(st.sampled_from(WORDS))
    field = draw(st.sampled_from([None, *FIELDS, *METRICS, *SPEC_FIELDS]))
    kind = None if field is None else field_kind(field)
    operator: Any = draw(st.sampled_from(OPERATORS))
    if field is None:
        return Words(word)
    if kind is FieldKind.TEXT:
        return draw(st.sampled_from([Holds(field, word), Comparison(field, "=", word), Comparison(field, "!=", word)]))
    if kind is FieldKind.TAG:
        return Comparison(field, draw(st.sampled_from(["=", "!="])), word)
    if kind is FieldKind.STATE:
        return Comparison(field, draw(st.sampled_from(["=", "!="])), draw(st.sampled_from([*RunState])).value)
    if kind is FieldKind.TIME:
        ago = draw(st.sampled_from([0.0, 3600.0, 5e4, 86400.0]).map(Ago))
        if operator in ("=", "!="):
            return Comparison(field, operator, draw(st.sampled_from([*DAYS, *MOMENTS])))
        return Comparison(field, operator, draw(st.sampled_from([*DAYS, *MOMENTS, ago])))
    if kind is FieldKind.DURATION:
        # Never on a border: SQLite's days are exact to a millisecond or so.
        return Comparison(field, draw(st.sampled_from(["<", "<=", ">", ">="])), draw(st.sampled_from([0.5, 5e3, 1e6])))
    if kind is FieldKind.SPEC and operator in ("=", "!="):
        parts = [Holds(field, part) for part in ("A.j", "strasse", "e-0", "5", "tru", '["a')]
        others = [True, False, None, "lru", "LRU", "/scratch", "straße", "5", *NUMBERS]
        return draw(st.sampled_from([*parts, *(Comparison(field, operator, one) for one in others)]))
    numbers = [n for n in NUMBERS if n >= 1] if kind is FieldKind.SPEC_SIZE else NUMBERS
    return Comparison(field, operator, draw(st.sampled_from(numbers)))


def joined(terms: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(terms, min_size=2, max_size=3).map(tuple)
    return terms.map(Not) | several.map(AllOf) | several.map(AnyOf)


filters = st.recursive(leaves(), joined, max_leaves=5)


@given(filters)
def test_filter_written_and_read_again_is_the_same(filter_: Filter) -> None:
    assert parse_filter(format_filter(filter_)) == filter_


texts = st.lists(
    st.sampled_from(['"', "(", ")", "<", ">=", ":", "!", "and", "or", "not", " ", *FIELDS, *SPEC_FIELDS, "2", "7d"])
    | st.text(string.printable, max_size=4)
).map("".join)


@given(texts | st.text())
def test_filter_of_any_text_is_understood_or_refused_with_a_column_inside_it(text: str) -> None:
    try:
        parsed = parse_filter(text)
    except FilterRefused as refused:
        assert 1 <= refused.column <= len(text) + 1
    else:
        assert parsed is None or parse_filter(format_filter(parsed)) == parsed


def test_every_field_has_a_meaning_in_the_database() -> None:
    kinds = {FieldKind.NUMBER: filter_sql.NUMBERS, FieldKind.TIME: filter_sql.TIMES}
    for kind, columns in kinds.items():
        assert {field for field, its in FIELDS.items() if its is kind} == set(columns)
    assert set(SPEC_FIELDS) <= set(spec_keys())


@dataclass(frozen=True)
class Stored:
    """A run as a plain loop sees it."""

    texts: dict[str, str]
    tags: list[str]
    state: str
    numbers: dict[str, float | None]
    times: dict[str, datetime | None]
    spec: dict[str, Any]


def holds_true(run: Stored, filter_: Filter) -> bool:
    match filter_:
        case Words(text):
            everything = [*run.texts.values(), *run.tags, *strings(run.spec)]
            return any(text.casefold() in one.casefold() for one in everything)
        case Holds(field, text):
            if field in run.texts:
                return text.casefold() in run.texts[field].casefold()
            found = in_spec(run, field)
            return found is not None and text.casefold() in as_text(found)
        case Not(term):
            return not holds_true(run, term)
        case AllOf(terms):
            return all(holds_true(run, term) for term in terms)
        case AnyOf(terms):
            return any(holds_true(run, term) for term in terms)
        case Comparison(field, "!=", value):
            return not holds_true(run, Comparison(field, "=", value))
        case Comparison():
            return compares(run, filter_)


def compares(run: Stored, term: Comparison) -> bool:
    field, value = term.field, term.value
    if field == "state":
        return run.state == value
    if field == "tag":
        return str(value).casefold() in [tag.casefold() for tag in run.tags]
    if field in run.texts:
        return run.texts[field].casefold() == str(value).casefold()
    if field in run.times:
        return timed(run.times[field], term)
    found = run.numbers[field] if field in run.numbers else in_spec(run, field)
    if value is None:
        return found is None
    if isinstance(value, str):
        return found is not None and as_text(found) == value.casefold()
    if isinstance(value, bool) or isinstance(found, bool):
        return found is value
    return isinstance(found, int | float) and ordered(float(found), term.operator, value)


def timed(found: datetime | None, term: Comparison) -> bool:
    if found is None:
        return False
    value = term.value
    if isinstance(value, Ago):
        return ordered(found, term.operator, NOW - timedelta(seconds=value.seconds))
    return ordered(found if isinstance(value, datetime) else found.date(), term.operator, value)


def ordered(found: Any, operator: str, value: Any) -> bool:
    return {
        "<": found < value, "<=": found <= value, ">": found > value, ">=": found >= value, "=": found == value,
    }[operator]  # fmt: skip


def in_spec(run: Stored, field: str) -> Any:
    section, key = field.split(".")
    found = run.spec.get(section, {}).get(key)
    return float(16 << 30) if found == "16GiB" else found


def as_text(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).casefold()


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


@pytest.fixture
def history(tmp_path: Path, any_database: str) -> Iterator[tuple[Database, dict[str, Stored]]]:
    """A dozen runs of all kinds, and the same as a plain loop sees them."""
    with open_store(tmp_path) as database:
        yield database, dict(stored(database, number) for number in range(14))


def stored(database: Database, number: int) -> tuple[str, Stored]:
    def pick(values: Any, step: int = 1) -> Any:
        return values[number * step % len(values)]

    states = [RunState.QUEUED, RunState.FINISHED, RunState.RUNNING, RunState.FAILED]
    tags, notes = [pick(WORDS), pick(WORDS, 5)], pick(WORDS, 7) * (number % 2)
    loss, eval_loss = pick([None, *NUMBERS]), pick([*NUMBERS, None], 3)
    metrics = {"train/loss": loss, "eval/loss": eval_loss, **({"time/step": pick(NUMBERS)} if number % 3 else {})}
    created, started = pick(MOMENTS), pick([None, *MOMENTS], 3)
    ended = started + timedelta(hours=2) if started is not None and number % 2 else None
    spec = SPECS[number // 4 % len(SPECS)]
    state = pick(states)
    before = RunState.RUNNING if state is RunState.FINISHED else state
    run_id = add_run(
        database, before, name=pick(WORDS, 2), tags=tags, notes=notes, model_name=pick(WORDS, 3),
        architecture="LlamaForCausalLM", parameters=pick([None, 5, 15]), total_steps=pick([None, 2]), spec=spec,
        created_at=created,
    )  # fmt: skip
    changes: dict[str, Any] = {
        "loss": loss, "eval_loss": eval_loss, "metrics": metrics, "step": number % 3, "device": pick([None, "cuda:0"]),
        "started_at": started, "ended_at": ended, "ran_s": 7200.0 if number % 2 else 0.0,
    }  # fmt: skip
    with database.write() as tx:
        if state is RunState.FINISHED:  # has its metrics when it ends; one that failed is told of some later
            update_run(tx, run_id, metrics=metrics)
            change_state(tx, run_id, state, who="test")
            del changes["metrics"]
        update_run(tx, run_id, **changes)
    texts = {
        "name": pick(WORDS, 2), "notes": notes, "model": pick(WORDS, 3), "architecture": "LlamaForCausalLM",
        "device": changes["device"] or "", "id": run_id,
    }  # fmt: skip
    taken = None if started is None else changes["ran_s"]
    if started is not None and state is RunState.RUNNING:
        taken += (NOW - started).total_seconds()
    numbers: dict[str, float | None] = {
        "loss": loss, "step": number % 3, "steps": pick([None, 2]), "parameters": pick([None, 5, 15]),
        "duration": taken, "time/step": None, **metrics,
    }  # fmt: skip
    times = {"created": created, "started": started, "ended": ended}
    return run_id, Stored(texts, tags, state.value, numbers, times, spec)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters)
def test_filter_in_the_database_and_its_page_and_counts_are_what_a_plain_loop_finds(
    history: tuple[Database, dict[str, Stored]], filter_: Filter
) -> None:
    database, runs = history
    with database.read() as tx:
        metrics = LastMetrics(tx.dialect.name)
        where = filter_sql.condition(filter_, metrics=metrics, now=NOW)
        found = set(tx.execute(metrics.join(select(RunTable.id).select_from(RunTable)).where(where)).scalars())
        page = list_runs(tx, RunFilter(matching=filter_), limit=50, cursor=FROM_THE_TOP)
    expected = {run_id for run_id, run in runs.items() if holds_true(run, filter_)}
    assert found == expected
    assert [run.id for run in page.runs] == sorted(
        expected, key=lambda one: (runs[one].times["created"], one), reverse=True
    )
    states = [runs[run_id].state for run_id in expected]
    assert page.counts == {state: states.count(state.value) for state in RunState} and page.total == len(expected)
