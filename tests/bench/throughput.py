"""The engine beside the plain in-memory loop: everything fits, a small arena, masters and moments on disk."""

from tests.bench.processes import Measured, Missing, Variant, run_variant
from tests.bench.report import Options, Report, disk_roofs
from tests.bench.rounds import Comparison, Round, ratio_table, raw, take_turns, variant_table
from tests.bench.work import Work, num_parameters

SMALL_ARENA = 0.08
STATE_BYTES = 24
"""Of a parameter and step, that masters and two moments in fp32 on disk can't do without: read once, written once."""

PLAIN = Variant(name="plain", build="tests.bench.plain_loop:build")
TUNED = Variant(name="plain tuned", build="tests.bench.plain_loop:build", worker_settings=True)
FITS = Variant(name="engine, everything fits", build="tests.bench.engine_loop:everything_fits", worker_settings=True)
ARENA = Variant(
    name=f"engine, arena at {SMALL_ARENA:.0%}", build="tests.bench.engine_loop:small_arena",
    options={"share": SMALL_ARENA}, worker_settings=True,
)  # fmt: skip


def on_disk(options: Options) -> Variant:
    """The engine with masters and moments on the measured disk."""
    return Variant(
        name="engine, state on disk", build="tests.bench.engine_loop:state_on_disk",
        options={"disk_folder": str(options.disk_folder)}, worker_settings=True,
    )  # fmt: skip


def run(options: Options, report: Report) -> None:
    """Measure each model and print its tables."""
    variants = [PLAIN, TUNED, FITS, ARENA, on_disk(options)]
    for model in options.models:
        work = Work(model=model)
        recomputed = ", plain loops recompute their layers" if work.recompute else ""
        report.write(f"\nThroughput, {model}, bf16, {work.sequences} x {work.tokens} tokens a step{recomputed}\n")
        rounds = take_turns(
            variants, work, rounds=options.rounds, steps=options.steps, write=report.write,
            before=lambda: disk_roofs(options.disk_folder),
        )  # fmt: skip
        for line in (*variant_table(variants, rounds), *ratio_table(_comparisons(variants[-1].name, model), rounds)):
            report.write(line)
        report.raw[f"throughput {model}"] = raw(rounds)
        for variant in variants:
            if isinstance(rounds[-1].results[variant.name], Missing):
                report.incomplete.append(f"{variant.name} {model}")
        if options.profile:
            _profiles(variants[2:], work, report)


def _comparisons(on_disk_name: str, model: str) -> list[Comparison]:
    def limit(one: Round) -> float | None:
        return disk_limit(one, on_disk_name, model)

    return [
        Comparison(name="everything fits / plain", top=FITS.name, bottom=PLAIN.name, goal=1.5),
        Comparison(name="everything fits / plain tuned", top=FITS.name, bottom=TUNED.name, goal=1.0),
        Comparison(name="plain tuned / plain", top=TUNED.name, bottom=PLAIN.name),
        Comparison(name=f"arena at {SMALL_ARENA:.0%} / everything fits", top=ARENA.name, bottom=FITS.name, goal=0.95),
        Comparison(name="state on disk / everything fits", top=on_disk_name, bottom=FITS.name),
        Comparison(name="state on disk / what memory and disk allow", top=on_disk_name, bottom=limit, goal=0.85),
    ]


def disk_limit(one: Round, variant: str, model: str) -> float | None:
    """Tokens/s that a round's disk and memory allow: the lower of the engine in memory and of the bytes moved a step.

    Bytes that need not move make nothing allowed slower: no more than state read and written once counts.
    """
    result, in_memory = one.results.get(variant), one.speed(FITS.name)
    bandwidth = one.roofs.get("disk read and write at once, MB/s")
    if not isinstance(result, Measured) or in_memory is None or bandwidth is None:
        return None
    moved = min(float(result.facts["disk_bytes_a_step"]), float(STATE_BYTES * num_parameters(model)))
    return min(in_memory, result.tokens / (moved / (bandwidth * 1e6))) if moved else in_memory


def _profiles(variants: list[Variant], work: Work, report: Report) -> None:
    for variant in variants:
        result = run_variant(variant, work, warm_up=1, steps=2, profile=True)
        report.write(f"  Profile of {variant.name}, {work.model}\n")
        if isinstance(result, Missing):
            report.write(f"    not available: {result.reason}\n")
            continue
        wall = sum(result.seconds) / len(result.seconds)
        report.write(f"    {'seconds a step':<34} {'training':>9} {'share':>6} {'threads beside':>15}\n")
        for part, (own, beside) in result.facts["parts"].items():
            report.write(f"    {part:<34} {own:>9.3f} {own / wall:>6.0%} {beside:>15.3f}\n")
        report.write(f"    {'operator':<34} {'seconds':>9} {'calls':>6}\n")
        for operator, (own, calls) in result.facts["operators"].items():
            report.write(f"    {operator[:34]:<34} {own:>9.3f} {calls:>6.0f}\n")
        report.raw[f"profile {variant.name} {work.model}"] = dict(result.facts)
