"""A model larger than the RAM that a ballast leaves: the engine with its disk tier beside PyTorch on file mappings."""

import tempfile

from tests.bench.ballast import GIB, NotQuiet, ballast
from tests.bench.processes import Variant
from tests.bench.report import Options, Report
from tests.bench.rounds import Comparison, ratio_table, raw, take_turns, variant_table
from tests.bench.work import Work

_MODEL = "1B"
_MMAP, _ENGINE = "plain, paged by the system", "engine with the disk tier"


def run(options: Options, report: Report) -> None:
    """Measure under the ballast, where one is asked for and the machine is quiet."""
    if not options.ballast:
        report.write("\nPaging: skipped; --ballast takes nearly all memory of this machine, so ask for it by hand\n")
        return
    work = Work(model=_MODEL, sequences=options.paging_sequences)
    report.write(
        f"\nPaging, {_MODEL}, bf16, {work.sequences} x {work.tokens} tokens a step, a ballast leaves "
        f"{options.ballast_leaves / GIB:.1f} GiB\n"
    )
    try:
        with (
            ballast(options.ballast_leaves),
            tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as folder,
        ):
            variants = [
                Variant(name=_MMAP, build="tests.bench.mmap_loop:build", options={"folder": folder}),
                Variant(
                    name=_ENGINE, build="tests.bench.engine_loop:what_is_free", options={"disk_folder": folder},
                    worker_settings=True,
                ),
            ]  # fmt: skip
            rounds = take_turns(variants, work, rounds=options.rounds, steps=options.steps, write=report.write)
    except NotQuiet as error:
        report.write(f"  not measured: {error}\n")
        report.incomplete.append("paging")
        return
    comparison = Comparison(name="engine / paging", top=_ENGINE, bottom=_MMAP, goal=2.5)
    for line in (*variant_table(variants, rounds), *ratio_table([comparison], rounds)):
        report.write(line)
    report.raw["paging"] = raw(rounds)
