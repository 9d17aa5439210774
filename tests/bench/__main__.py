"""`python -m tests.bench`: measures this machine; every figure is a ratio of things that took turns in one run.

Run with `make bench`, or choose what to measure: python -m tests.bench --help.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench import checkpoints, facts, ingest, load, memory, paging, peers, telemetry, throughput, viewers
from tests.bench.ballast import GIB
from tests.bench.peer_install import default_folder
from tests.bench.report import Options, Report, machine_roofs
from tests.bench.work import SHAPES


def _policies(_options: Options, report: Report) -> None:
    from tests.bench.policies import miss_ratios, table  # the engine's own code, torch with it: last, since it is large

    rows = miss_ratios()
    report.write(f"\nPolicies\n{table(rows)}\n")
    report.raw["policies"] = [asdict(row) for row in rows]


def _kills(_options: Options, report: Report) -> None:
    from tests.support.kills import kill_at_random

    report.write("\nWorkers killed at random instants\n")
    with tempfile.TemporaryDirectory(prefix="horizon-bench-") as folder:
        found = kill_at_random(Path(folder), kills=50, seed=1, say=lambda line: report.write(f"  {line}\n"))
    report.write(
        f"  {found.kills} kills over {found.runs} runs, {found.while_saving} while saving or removing; "
        f"gone on with from steps {found.resumed_at}: every run has the losses of an unbroken one to the last bit, "
        "and every checkpoint left is whole\n"
    )
    report.raw["kills"] = asdict(found)


def _chaos(_options: Options, report: Report) -> None:
    from tests.support.server_kills import survive

    report.write("\nServers and workers killed at random, with clients watching\n")
    with tempfile.TemporaryDirectory(prefix="horizon-bench-") as folder:
        found = survive(Path(folder), kills=100, seed=1, say=lambda line: report.write(f"  {line}\n"))
    report.write(
        f"  {found.server_kills} kills of the server and {found.worker_kills} of workers in {found.seconds:.0f} s: all "
        f"{found.runs} runs finished, resumed {found.resumed} times; every step of every journal is in the history "
        f"once; the clients came back {found.reconnections} times and saw {found.frames} frames, each once, in order\n"
    )
    report.raw["chaos"] = asdict(found)


def _fuzz(options: Options, report: Report) -> None:
    from tests.support.fuzzing import fuzz

    with tempfile.TemporaryDirectory(prefix="horizon-bench-") as folder:
        found = fuzz(
            Path(folder), examples=options.rounds * 20, phases="examples,coverage,fuzzing,stateful", with_slow=True
        )
    report.write(f"\nRequests made from the OpenAPI schema\n{found.report if found.exit_code else found.summary}\n")
    report.raw["fuzz"] = {"exit_code": found.exit_code, "summary": found.summary}
    if found.exit_code:
        report.incomplete.append("fuzz: see its failures above")


_GROUPS: dict[str, Callable[[Options, Report], None]] = {
    "throughput": throughput.run,
    "telemetry": telemetry.run,
    "peers": peers.run,
    "paging": paging.run,
    "memory": memory.run,
    "policies": _policies,
    "checkpoints": checkpoints.run,
    "kills": _kills,
    "chaos": _chaos,
    "load": load.run,
    "ingest": ingest.run,
    "facts": facts.run,
    "fuzz": _fuzz,
    "viewers": viewers.run,
}
_QUICK = ["throughput", "telemetry", "policies"]
_QUICK_MODELS = {"throughput": ["50M", "160M"], "peers": ["160M"]}
_REST = """
That was what fits in about 20 minutes on two cores. The rest, best on an otherwise idle machine:
  python -m tests.bench throughput --models 1B    the larger model (about 16 GiB of RAM)
  python -m tests.bench peers                     beside DeepSpeed and FSDP2, installed into the user's cache folder
  python -m tests.bench memory                    what loading 1.5 GB takes
  python -m tests.bench paging --ballast          a model larger than the RAM left, beside paging by the system
  python -m tests.bench checkpoints               a checkpoint of 1.5 GB of weights: memory, seconds, what steps lose
  python -m tests.bench facts                     SmolLM2 learns 500 facts, is exported, and asked the same
  python -m tests.bench fuzz                      requests made from the OpenAPI schema, 100 for each route
  python -m tests.bench viewers                   a run with 200 viewers beside one with none
  python -m tests.bench load                      10,000 runs, a million points: the server's answers, timed
  python -m tests.bench ingest                    2,000 points a second from a worker into the history
  python -m tests.bench kills                     50 workers killed at random instants, and how their runs go on
  python -m tests.bench chaos                     100 kills of server and workers, with clients watching
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure this machine, as ratios.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(_GROUPS)}, all; default: {_QUICK}")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each variant; medians are taken over them")
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps measured in a turn, after two to warm up")
    parser.add_argument("--models", nargs="+", choices=list(SHAPES), help=f"default: {_QUICK_MODELS}")
    parser.add_argument("--disk-folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--peers-dir", type=Path, default=default_folder(), help="where rivals are installed")
    parser.add_argument("--tuned-peers", action="store_true", help="rivals with the worker's allocator and threads")
    parser.add_argument("--ballast", action="store_true", help="take nearly all memory for the paging group")
    parser.add_argument("--ballast-leaves", type=float, default=5.0, metavar="GIB", help="what the ballast leaves free")
    parser.add_argument("--paging-sequences", type=int, default=1, help="sequences a step in the paging group")
    parser.add_argument("--profile", action="store_true", help="after the throughput tables, where a step's time goes")
    parser.add_argument("--facts", type=int, default=500, help="how many SmolLM2 learns in the facts group")
    parser.add_argument("--fact-epochs", type=int, default=10, help="how often it sees each of them")
    parser.add_argument("--runs", type=int, default=10_000, help="runs of the history in the load group")
    parser.add_argument("--points", type=int, default=1_000_000, help="points of its large runs, and lines of a log")
    parser.add_argument("--home", type=Path, help="where the load group keeps its history, to be used again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the groups asked for; 1 where something of ours could not be measured."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    names = list(_GROUPS) if "all" in asked.groups else asked.groups or _QUICK
    unknown = [name for name in names if name not in _GROUPS]
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(_GROUPS)} and all")
    report = Report()
    for number, name in enumerate(names):
        options = Options(
            rounds=asked.rounds, steps=asked.steps, models=asked.models or _QUICK_MODELS.get(name, []),
            disk_folder=asked.disk_folder.resolve(), peers_folder=asked.peers_dir.resolve(),
            worker_settings_for_peers=asked.tuned_peers, ballast=asked.ballast,
            ballast_leaves=int(asked.ballast_leaves * GIB), paging_sequences=asked.paging_sequences,
            profile=asked.profile, facts=asked.facts, fact_epochs=asked.fact_epochs, history_home=asked.home,
            history_runs=asked.runs, history_points=asked.points,
        )  # fmt: skip
        if number == 0:
            machine_roofs(options, report)
        _GROUPS[name](options, report)
        if asked.json:
            report.save(asked.json)
    if not asked.groups:
        report.write(_REST)
    if report.incomplete:
        report.write(f"\nNot measured: {', '.join(report.incomplete)}\n")
    return 1 if report.incomplete else 0


if __name__ == "__main__":
    raise SystemExit(main())
