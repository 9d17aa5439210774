"""Whether memory ran out or is about to, on the device, in RAM or on disk."""

import re
from collections.abc import Iterator

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.knobs import Knob
from horizon_app.contracts.run_checks import Finding
from horizon_app.contracts.run_state import Cause, RunState
from horizon_app.contracts.sizes import show_bytes
from horizon_app.contracts.spec_words import Disk
from horizon_app.control.diagnosis.facts import RunFacts
from horizon_app.control.diagnosis.robust import share
from horizon_app.control.diagnosis.symptoms import Item, Proposal, Symptom, conclude

LEAST_FREE = 0.05
"""Share of RAM: with less, the next allocation of any program may have the kernel kill one."""
MOST_HELD = 0.95
"""Share of RAM that the worker may ever have held."""
SMALLER_TIER = 0.75
SMALLEST_ARENA = 2
_RAN_OUT = re.compile(r"out of memory|no memory left|the (device|host|disk) tier needs", re.IGNORECASE)
_ITEM = Item(
    id="out_of_memory", title="Memory runs out",
    threshold=f"no step short of memory, at least {LEAST_FREE:.0%} of RAM free",
)  # fmt: skip


def shortage(facts: RunFacts) -> Finding:
    """The finding about memory."""
    memory = facts.memory
    numbers: dict[str, float] = {"shortages": len(facts.shortages)}
    calm = "no step was short of memory"
    if memory is not None:
        numbers["memory_total_bytes"] = memory.total_bytes
        if memory.available_bytes is not None:
            numbers["memory_available_bytes"] = memory.available_bytes
        if memory.peak_bytes is not None:
            numbers["peak_bytes"] = memory.peak_bytes
            held, total = show_bytes(memory.peak_bytes), show_bytes(memory.total_bytes)
            calm = f"{calm}; the worker held {held} of {total} RAM at most"
    lacks = "no step is done yet; 1 is needed" if facts.step == 0 else ""
    symptoms = [*_ended(facts), *_halved(facts), *_full(facts)]
    return conclude(facts, _ITEM, symptoms, numbers=numbers, calm=calm, lacks=lacks)


def _ended(facts: RunFacts) -> Iterator[Symptom]:
    if facts.state is RunState.INTERRUPTED and facts.cause is Cause.OUT_OF_MEMORY:
        evidence = facts.reason or "the kernel killed the worker for memory"
        yield Symptom(verdict=Verdict.PROBLEM, evidence=evidence, proposals=_less_in_ram(facts))
    found = _RAN_OUT.search(facts.reason) if facts.state is RunState.FAILED else None
    if found is None:
        return
    tier = (found[1] or ("device" if re.search(r"cuda|device", facts.reason, re.IGNORECASE) else "host")).lower()
    ways = {"device": _less_on_device, "host": _less_in_ram, "disk": _less_on_disk}
    yield Symptom(verdict=Verdict.PROBLEM, evidence=facts.reason, proposals=ways[tier](facts))


def _halved(facts: RunFacts) -> Iterator[Symptom]:
    if not facts.shortages:
        return
    first, last = facts.shortages[0], facts.shortages[-1]
    times = "once" if len(facts.shortages) == 1 else f"{len(facts.shortages)} times"
    evidence = (
        f"memory ran out {times}, last at step {last.step}: micro-batches of {last.new} sequences instead of "
        f"{first.old}, each time after a step that was lost"
    )
    text = f"begin with micro-batches of {last.new}, or with fewer tokens a sequence"
    values = {"training.micro_batch_size": last.new, "accumulation.steps": "auto"}
    yield Symptom(
        verdict=Verdict.WARNING, evidence=evidence, proposals=[Proposal(text=text, values=values), Proposal(text=text)]
    )


def _full(facts: RunFacts) -> Iterator[Symptom]:
    memory = facts.memory
    if memory is None:
        return
    total = memory.total_bytes
    if memory.available_bytes is not None and share(memory.available_bytes, total) < LEAST_FREE:
        evidence = f"{show_bytes(memory.available_bytes)} of {show_bytes(total)} RAM are free"
        yield Symptom(verdict=Verdict.WARNING, evidence=evidence, proposals=_less_in_ram(facts))
    elif memory.peak_bytes is not None and share(memory.peak_bytes, total) > MOST_HELD:
        evidence = f"the worker held {show_bytes(memory.peak_bytes)} of {show_bytes(total)} RAM at most"
        yield Symptom(verdict=Verdict.WARNING, evidence=evidence, proposals=_less_in_ram(facts))


def _less_in_ram(facts: RunFacts) -> list[Proposal]:
    held, advice = facts.planned("host_bytes"), "end other programs"
    if held is None:
        return [Proposal(text=f"{advice}, or set offload.host_memory so that what is too much lies on disk")]
    mebibytes = int(held * SMALLER_TIER) >> 20
    text = f"{advice}, or keep {mebibytes:,} MiB in RAM instead of {held >> 20:,} and the rest on disk"
    values: dict[str, object] = {"offload.host_memory": f"{mebibytes}MiB"}
    if facts.setting("offload.disk") == Disk.OFF.value:
        values["offload.disk"] = Disk.AUTO.value
    return [Proposal(text=text, values=values), Proposal(text=text)]


def _less_on_device(facts: RunFacts) -> list[Proposal]:
    found: list[Proposal] = []
    micro = facts.lately("accumulation/micro_batch_size").last or facts.planned("micro_batch_size")
    if micro is not None and micro >= 2:
        half = int(micro) // 2
        values = {"training.micro_batch_size": half, "accumulation.steps": "auto"}
        found.append(Proposal(text=f"micro-batches of {half} sequences instead of {int(micro)}", values=values))
    slots = facts.in_force(Knob.MAX_GPU_BLOCKS)
    if isinstance(slots, int) and slots > SMALLEST_ARENA:
        fewer = max(SMALLEST_ARENA, int(slots * SMALLER_TIER))
        text = f"{fewer} slots on the device instead of {slots}: what computing needs has more room beside them"
        found.append(Proposal(text=text, values={"offload.max_gpu_blocks": fewer}))
    return [*found, Proposal(text="shorter sequences (data.sequence_length), or a smaller param_block_size")]


def _less_on_disk(_facts: RunFacts) -> list[Proposal]:
    return [Proposal(text="free room on the disk tier's volume, set offload.disk_path to a larger one, or raise "
                          "offload.disk_memory where it is set")]  # fmt: skip
