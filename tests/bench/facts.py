"""SmolLM2-135M learns made-up facts until it answers wordings that it never saw; its export answers the same.

Not part of CI: on two cores it takes tens of minutes.
"""

import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.report import Options, Report
from tests.support.smollm2 import smollm2_folder
from tests.support.trained_home import horizon

MIB = 1 << 20
SYSTEM = "Answer with the name of the town."
TAUGHT = ("Where does {who} live?", "In which town does {who} live?")
HELD_OUT = "Tell me the town where {who} lives."
_FIRST = "Mira Talo Essen Brunel Oda Perrin Sabe Ilva Corin Dex Hanno Jurek Lise Marn Nilo Orsa Petra Quin Rolf Suri"
_LAST = (
    "Vantor Delmas Okoye Brandt Liska Moreau Tanaka Quill Rasmus Ferro Halden Iwata Jansen Kovar Lund Mbeki Norden "
    "Ostrow Pavic Renko Silva Thorne Ulman Verne Weiss"
)
_TOWNS = "Oslo Lima Rome Bonn Cairo Delhi Perth Quito Seoul Turin Vienna Warsaw Lagos Miami Paris Dublin"


def run(options: Options, report: Report) -> None:
    """Train, ask held-out wordings, export, and ask plain transformers the same."""
    with tempfile.TemporaryDirectory(prefix="horizon-facts-", dir=options.disk_folder) as folder:
        report.raw["facts"] = learn(Path(folder), options.facts, options.fact_epochs, report)


def learn(folder: Path, count: int, epochs: int, report: Report) -> dict[str, Any]:
    """The whole way with `count` facts; answers what was counted."""
    facts = made_up(count)
    _write_rows(folder / "facts.jsonl", facts, TAUGHT)
    _write_rows(folder / "held_out.jsonl", facts, (HELD_OUT,))
    spec = {
        "model": {"path": str(smollm2_folder())},
        "data": {"path": "facts.jsonl", "eval_path": "held_out.jsonl", "sequence_length": 256},
        "training": {
            "epochs": epochs, "global_batch_size": 2, "learning_rate": 3e-4, "warmup_steps": 10, "schedule": "linear",
        },
        "offload": {"device": "cpu", "param_block_size": "4MiB", "max_gpu_blocks": 24},
        "evaluation": {"every": 200}, "checkpoint": {"every": 0},
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    begin = time.monotonic()
    threads = os.cpu_count() or 1
    outcome = horizon("run", folder / "spec.json", "--json", home=folder / "home", threads=threads)
    report.write(
        f"\n{count} facts\n  {outcome['optimizer_steps']} steps in {time.monotonic() - begin:.0f} s, "
        f"train loss {outcome['metrics']['train/loss']:.4f}, loss of held-out wordings "
        f"{outcome['metrics']['eval/loss']:.4f}, {outcome['peak']['device_blocks']} device blocks at most\n"
    )
    exported = horizon("runs", "export", outcome["id"], "--model", folder / "out", "--dtype", "fp32", "--json",
        home=folder / "home",
    )  # fmt: skip
    return _compare(folder, outcome["id"], facts, exported, report)


def made_up(count: int) -> dict[str, str]:
    """Who lives where: people that nobody has written of, the same in every run."""
    names = [f"{first} {last}" for first in _FIRST.split() for last in _LAST.split()]
    dice = random.Random(7)
    dice.shuffle(names)
    return {name: dice.choice(_TOWNS.split()) for name in names[:count]}


def _write_rows(path: Path, facts: dict[str, str], wordings: Sequence[str]) -> None:
    rows = [
        {"messages": [*_question(wording, who), {"role": "assistant", "content": town}]}
        for who, town in facts.items()
        for wording in wordings
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _question(wording: str, who: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": wording.format(who=who)}]


def _compare(
    folder: Path, run_id: str, facts: dict[str, str], exported: dict[str, Any], report: Report
) -> dict[str, Any]:  # fmt: skip
    from tests.bench.fact_answers import by_engine, by_transformers  # torch: late

    questions = [_question(HELD_OUT, who) for who in facts]
    ours = by_engine(folder / "home" / "runs" / run_id, questions)
    plain = by_transformers(folder / "out", questions)
    right = sum(answer == town for answer, town in zip(ours, facts.values(), strict=True))
    same = sum(a == b for a, b in zip(ours, plain, strict=True))
    report.write(
        f"  held-out wordings answered right: {right} of {len(facts)}\n"
        f"  plain transformers answers the same with the export: {same} of {len(facts)}\n"
        f"  the export took {exported['peak_bytes'] / MIB:,.0f} MiB at most for {exported['bytes'] / MIB:,.0f} MiB\n"
    )
    return {"facts": len(facts), "right": right, "same": same, "export_peak_bytes": exported["peak_bytes"]}
