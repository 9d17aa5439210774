"""Reports as files: self-contained, without scripts, with everything escaped."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from horizon_app.contracts.events import LogWritten, SampleGenerated
from horizon_app.contracts.knobs import Knob, KnobChange, KnobStatus
from horizon_app.control.comparison import Comparisons
from horizon_app.control.history import History
from horizon_app.control.history_export import ExportFormat, HistoryExports
from horizon_app.control.recorder import note
from horizon_app.control.reports.comparison_report import comparison_report
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.knobs import insert_changes
from tests.support.stores import add_measured_run, add_run, open_store, resume_behind

EVIL = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)> \"'&"
LOSSES = {step: 4.0 / step for step in range(1, 50)}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_store(tmp_path) as database:
        yield database


@pytest.fixture
def history(database: Database, tmp_path: Path) -> History:
    return History(database, AppSettings(home=tmp_path))


def report(database: Database, history: History, run_id: str) -> str:
    return b"".join(HistoryExports(database, history).export(run_id, ExportFormat.HTML).parts).decode()


VOID = {"meta", "br", "line", "path"}


class Tags(HTMLParser):
    """Tags and attributes of a document, and what was left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_self_contained(text: str) -> Tags:
    found = Tags(text)
    assert found.open == []
    assert not {"script", "img", "iframe", "link", "object", "form", "a"} & set(found.tags)
    assert not {name for name in found.attributes if name.startswith("on") or name in {"src", "href"}}
    assert re.findall(r"https?:|@import|url\(", text) == []
    assert "default-src 'none'" in text
    return found


def test_report_of_a_run_shows_its_curves_changes_and_events(database: Database, history: History) -> None:
    series = {"train/loss": LOSSES, "tier/host_bytes": dict.fromkeys(LOSSES, 1e9)}
    run_id = add_measured_run(database, series, name="tiny", spec={"offload": {"policy": "lru"}})
    change = KnobChange(
        number=1, time=datetime.now(UTC), who="browser", knob=Knob.POLICY, old="lru", new="clock",
        status=KnobStatus.HOLDS, step=20, message="", undoes=None,
    )  # fmt: skip
    with database.write() as tx:
        insert_changes(tx, run_id, [change])
    note(database, run_id, [LogWritten(level="error", message="it broke")])
    text = report(database, history, run_id)
    found = check_self_contained(text)
    assert found.tags.count("svg") == 2
    assert found.tags.count("path") == 3  # the loss twice: as measured and smoothed
    assert '<b class="mark knob"' in text
    for fact in ("tiny", run_id, "Memory by tier", "policy", "it broke", "starting", "browser"):
        assert fact in text


def test_report_escapes_everything_that_anybody_wrote(database: Database, history: History) -> None:
    run_id = add_measured_run(
        database,
        {"train/loss": {1: 1.0}},
        name=EVIL,
        tags=[EVIL],
        notes=EVIL,
        model_name=EVIL,
        spec={EVIL: {"k": EVIL}},
    )
    sample = SampleGenerated(step=1, prompt=EVIL, text=EVIL, num_tokens=1, ending="stop")
    note(database, run_id, [LogWritten(message=EVIL), sample])
    check_self_contained(report(database, history, run_id))


def test_report_of_a_run_that_never_started_is_whole(database: Database, history: History) -> None:
    text = report(database, history, add_run(database))
    assert check_self_contained(text).tags.count("svg") == 0
    assert "Nothing was measured." in text


def test_report_of_a_resumed_run_tells_its_lives_and_draws_the_abandoned_tail(
    database: Database, history: History
) -> None:
    run_id = add_measured_run(database, {"train/loss": LOSSES})
    resume_behind(database, run_id, step=20)
    text = report(database, history, run_id)
    assert check_self_contained(text).tags.count("path") == 3
    assert "steps behind 20 were done again" in text


def test_report_of_a_clone_shows_where_it_differs_from_its_parent(database: Database, history: History) -> None:
    parent = add_run(database, name="the first", spec={"offload": {"policy": "lru", "disk": "off"}})
    clone = add_run(database, cloned_from=parent, spec={"offload": {"policy": "clock", "disk": "off"}})
    text = report(database, history, clone)
    cells = re.findall(r"<th>offload.(\w+)</th><td class=\"v\">(\w+)</td><td class=\"v\">(\w+)</td>", text)
    assert "Cloned from the first" in text
    assert cells == [("policy", "lru", "clock")]


def test_report_of_a_clone_whose_parent_was_deleted_leaves_that_out(database: Database, history: History) -> None:
    assert "Cloned from" not in report(database, history, add_run(database, cloned_from="gone"))


def test_comparison_report_overlays_all_runs_and_escapes_their_names(database: Database, history: History) -> None:
    runs = [
        add_measured_run(database, {"train/loss": {1: 2.0, 2: 1.0}}, name=EVIL, spec={"a": number})
        for number in range(8)
    ]
    text = comparison_report(Comparisons(database, history).compare(runs))
    found = check_self_contained(text)
    assert (found.tags.count("svg"), found.tags.count("path")) == (1, 8)
    assert 'class="s2 dashed"' in text  # the eighth run: the second colour again
