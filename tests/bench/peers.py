"""The engine beside DeepSpeed's ZeRO-3 and PyTorch's FSDP2, each with everything off the device."""

import tempfile
from dataclasses import replace

from tests.bench import peer_install
from tests.bench.processes import Missing, Variant
from tests.bench.report import Options, Report
from tests.bench.rounds import Comparison, ratio_table, raw, take_turns, variant_table
from tests.bench.throughput import ARENA, FITS, PLAIN, on_disk
from tests.bench.work import Work

_FSDP = Variant(name="FSDP2 CPUOffloadPolicy", build="tests.bench.fsdp_loop:build")
_ZERO = Variant(name="DeepSpeed ZeRO-3, CPU", build="tests.bench.deepspeed_loop:build", options={"nvme_folder": None})
_NVME = "DeepSpeed ZeRO-3, NVMe"


def run(options: Options, report: Report) -> None:
    """Install what is not there, measure each model and print its tables."""
    report.write("\nPeers: installing and building what is not there yet (minutes, the first time)\n")
    deepspeed = peer_install.deepspeed_interpreter(options.peers_folder)
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as nvme:
        variants = [PLAIN, FITS, ARENA, on_disk(options), _peer(_FSDP, options)]
        if isinstance(deepspeed, Missing):
            report.write(f"  DeepSpeed: not available: {deepspeed.reason}\n")
        else:
            zero = replace(_ZERO, interpreter=deepspeed)
            variants += [_peer(zero, options), _peer(replace(zero, name=_NVME, options={"nvme_folder": nvme}), options)]
        for model in options.models:
            _measure(model, variants, options, report)


def _peer(variant: Variant, options: Options) -> Variant:
    return replace(variant, worker_settings=options.worker_settings_for_peers)


def _measure(model: str, variants: list[Variant], options: Options, report: Report) -> None:
    work = Work(model=model)
    start = "with the worker's settings" if options.worker_settings_for_peers else "as people start them"
    report.write(f"\nPeers {start}, {model}, bf16, {work.sequences} x {work.tokens} tokens a step\n")
    rounds = take_turns(variants, work, rounds=options.rounds, steps=options.steps, write=report.write)
    disk = on_disk(options).name
    comparisons = [
        Comparison(name="everything fits / DeepSpeed ZeRO-3, CPU", top=FITS.name, bottom=_ZERO.name, goal=1.5),
        Comparison(name="arena / DeepSpeed ZeRO-3, CPU", top=ARENA.name, bottom=_ZERO.name, goal=1.5),
        Comparison(name="state on disk / DeepSpeed ZeRO-3, NVMe", top=disk, bottom=_NVME, goal=2.0),
        Comparison(name="everything fits / FSDP2 CPUOffloadPolicy", top=FITS.name, bottom=_FSDP.name, goal=1.3),
        Comparison(name="arena / FSDP2 CPUOffloadPolicy", top=ARENA.name, bottom=_FSDP.name, goal=1.3),
        Comparison(name="DeepSpeed ZeRO-3, CPU / plain", top=_ZERO.name, bottom=PLAIN.name),
        Comparison(name="DeepSpeed ZeRO-3, NVMe / plain", top=_NVME, bottom=PLAIN.name),
        Comparison(name="FSDP2 CPUOffloadPolicy / plain", top=_FSDP.name, bottom=PLAIN.name),
    ]
    for line in (*variant_table(variants, rounds), *ratio_table(comparisons, rounds)):
        report.write(line)
    report.raw[f"peers {model}"] = raw(rounds)
