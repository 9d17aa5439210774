"""What processes here may take: of the machine, and of control groups of either version."""

from pathlib import Path

import psutil

from horizon_app.control.memory import memory_here, oom_kills

MIB = 1 << 20


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_memory_is_the_tightest_limit_of_nested_groups_of_version_2(tmp_path: Path) -> None:
    groups, proc = tmp_path / "cgroup", tmp_path / "proc"
    write(proc / "self", cgroup="0::/user.slice/run.scope")
    write(groups / "user.slice", memory__max=600 * MIB, memory__current=500 * MIB, memory__stat="inactive_file 0")
    write(
        groups / "user.slice" / "run.scope", memory__max=900 * MIB, memory__current=100 * MIB,
        memory__events="low 0\noom 1\noom_kill 3",
    )  # fmt: skip
    write(proc, vmstat="oom_kill 77")
    found = memory_here(groups, proc)
    assert (found.total_bytes, found.available_bytes, found.is_limited) == (600 * MIB, 100 * MIB, True)
    assert oom_kills(groups, proc) == 3


def test_memory_of_a_container_is_that_of_the_root_it_sees(tmp_path: Path) -> None:
    groups, proc = tmp_path / "cgroup", tmp_path / "proc"
    write(proc / "self", cgroup="0::/")
    write(groups, memory__max=512 * MIB, memory__current=400 * MIB, memory__stat=f"inactive_file {100 * MIB}")
    found = memory_here(groups, proc)
    assert (found.total_bytes, found.available_bytes) == (512 * MIB, 212 * MIB)


def test_memory_is_limited_by_a_group_of_version_1(tmp_path: Path) -> None:
    groups, proc = tmp_path / "cgroup", tmp_path / "proc"
    write(proc / "self", cgroup="5:cpu,cpuacct:/x\n4:memory:/docker/a")
    write(
        groups / "memory" / "docker" / "a", memory__limit_in_bytes=256 * MIB, memory__usage_in_bytes=64 * MIB,
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2",
    )  # fmt: skip
    write(groups / "memory", memory__limit_in_bytes=9223372036854771712)
    found = memory_here(groups, proc)
    assert (found.total_bytes, found.available_bytes, oom_kills(groups, proc)) == (256 * MIB, 192 * MIB, 2)


def test_memory_without_a_limit_is_the_machine_and_kills_are_its_count(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    write(proc / "self", cgroup="0::/init.scope")
    write(tmp_path / "cgroup" / "init.scope", memory__max="max")
    write(proc, vmstat="pgfault 1\noom_kill 77")
    found = memory_here(tmp_path / "cgroup", proc)
    assert found.total_bytes == psutil.virtual_memory().total and not found.is_limited
    assert oom_kills(tmp_path / "cgroup", proc) == 77
