"""The machine's checklist: each check tells what it found, and what to do where that is not right."""

import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.control.doctor import limits, memory, processor, serving, software, storage
from horizon_app.control.doctor.report import examine
from horizon_app.control.memory import Memory
from horizon_app.control.server_file import ServerClaim
from horizon_app.settings import AppSettings
from tests.support.stores import add_run, open_store

QUICK_BYTES = 8 << 20


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    return AppSettings(home=tmp_path / "home", port=0)


@pytest.fixture
def small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_PROBE_BYTES", QUICK_BYTES)


def by_id(checks: list[Check]) -> dict[str, Check]:
    return {check.id: check for check in checks}


def test_every_check_has_evidence_and_each_fault_a_fix(settings: AppSettings, small_probe: None) -> None:
    report = examine(settings)
    assert len(report.checks) == len(by_id(report.checks)) >= 15
    for check in report.checks:
        assert check.title and check.evidence
        assert bool(check.fix) == (check.verdict is not Verdict.OK), check
    order = [*Verdict]
    assert order.index(report.verdict) == max(order.index(check.verdict) for check in report.checks)


def test_disk_probe_leaves_nothing_behind_and_no_home(settings: AppSettings, small_probe: None) -> None:
    checks = by_id(storage.storage_checks(settings))
    assert "MB/s" in checks["disk_speed"].evidence
    assert checks["database"].evidence.startswith("none yet")
    assert [*settings.home.parent.iterdir()] == []


def test_database_with_a_torn_page_is_a_problem(settings: AppSettings, small_probe: None) -> None:
    with open_store(settings.home) as database:
        for _ in range(50):
            add_run(database)
    assert by_id(storage.storage_checks(settings))["database"].verdict is Verdict.OK
    content = bytearray(settings.database_path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    settings.database_path.write_bytes(content)
    assert by_id(storage.storage_checks(settings))["database"].verdict is Verdict.PROBLEM


def test_file_that_is_no_database_is_a_problem(settings: AppSettings, small_probe: None) -> None:
    settings.home.mkdir()
    settings.database_path.write_text("hello" * 1000)
    check = by_id(storage.storage_checks(settings))["database"]
    assert (check.verdict, check.evidence) == (Verdict.PROBLEM, "file is not a database")


@pytest.mark.parametrize(
    ("kind", "verdict"), [("ext4", Verdict.OK), ("tmpfs", Verdict.WARNING), ("nfs4", Verdict.PROBLEM)]
)
def test_file_system_that_forgets_or_is_far_away_is_told(
    kind: str, verdict: Verdict, settings: AppSettings, small_probe: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_mount", lambda _: (kind, "/somewhere"))
    assert by_id(storage.storage_checks(settings))["file_system"].verdict is verdict


@pytest.mark.parametrize(("free_gib", "verdict"), [(100, Verdict.OK), (5, Verdict.WARNING), (0.5, Verdict.PROBLEM)])
def test_room_on_the_disk_decides_the_verdict(
    free_gib: float, verdict: Verdict, settings: AppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: type("Usage", (), {"free": int(free_gib * 2**30)}))
    check = storage._space(settings.home.parent)
    assert check.verdict is verdict


def test_few_open_files_are_a_warning_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    check = by_id(limits.limit_checks())["open_files"]
    assert (check.verdict, check.evidence) == (Verdict.WARNING, "256 (hard limit 1024)")


def test_processor_without_wide_instructions_is_a_warning() -> None:
    old = processor._processor("model name\t: Old CPU\nflags\t\t: fpu sse2\n")
    new = processor._processor("model name\t: New CPU\nflags\t\t: fpu avx2 amx_bf16\n")
    assert (old.verdict, new.verdict) == (Verdict.WARNING, Verdict.OK)
    assert "avx2, amx_bf16" in new.evidence


def test_driver_older_than_what_torch_was_built_for_is_a_problem() -> None:
    class Cards:
        driver, cuda, names = "450.80", (11, 0), ["Some card with 24 GiB"]

    cards: Any = Cards()
    assert software._driver("12.8", cards).verdict is Verdict.PROBLEM
    assert software._driver("11.8", cards).verdict is Verdict.OK
    assert software._torch(None, cards).verdict is Verdict.WARNING


def have_memory(monkeypatch: pytest.MonkeyPatch, *, total_gib: int, available_gib: int) -> None:
    found = Memory(total_bytes=total_gib << 30, available_bytes=available_gib << 30, is_limited=True)
    monkeypatch.setattr(memory, "memory_here", lambda: found)


def test_memory_of_a_small_container_is_told_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        memory, "memory_here", lambda: Memory(total_bytes=2 << 30, available_bytes=1 << 30, is_limited=True)
    )
    check = memory._memory()
    assert check.verdict is Verdict.WARNING
    assert check.evidence.startswith("limited to 2 GiB by the control group, of ")


def test_pinnable_memory_on_a_card_is_what_the_probe_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_has_card", lambda: True)
    monkeypatch.setattr(
        memory, "memory_here", lambda: Memory(total_bytes=64 << 30, available_bytes=60 << 30, is_limited=False)
    )
    monkeypatch.setattr(memory, "_probe", lambda: 4 << 30)
    few = memory._pinnable()
    assert (few.verdict, few.evidence) == (Verdict.WARNING, "4 GiB were pinned at once")


def test_port_that_is_taken_is_a_warning_and_a_server_of_this_home_is_none(settings: AppSettings) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = settings.model_copy(update={"port": holder.getsockname()[1]})
        (check,) = serving.serving_checks(taken)
        assert check.verdict is Verdict.WARNING
        settings.home.mkdir()
        with ServerClaim(settings.home, "127.0.0.1", taken.port):
            (check,) = serving.serving_checks(taken)
        assert (check.verdict, f"port {taken.port}" in check.evidence) == (Verdict.OK, True)
