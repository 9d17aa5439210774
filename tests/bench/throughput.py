"""The engine beside the plain in-memory PyTorch loop: tokens/s and peak memory, as ratios within one run.

Machines are noisy, so the variants take turns, each in a fresh process, for several rounds; the ratio of each round is
taken first, then the median over the rounds. Run with `make bench`, or

python -m tests.bench.throughput [--rounds 3] [--steps 3] [--models 50M 160M] [--precisions bf16 fp32]
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.variants import MODELS, SEQUENCES, TOKENS, VARIANTS

TOKENS_A_STEP = SEQUENCES * TOKENS
GIB = 1 << 30


@dataclass(frozen=True)
class Measured:
    """One variant in one round."""

    tokens_per_second: float
    peak_bytes: int


def run_variant(variant: str, model: str, precision: str, steps: int) -> Measured:
    """Measure in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.variants", variant, model, precision, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{variant} {model} {precision} failed:\n{done.stderr}")
    facts = json.loads(done.stdout.splitlines()[-1])
    return Measured(TOKENS_A_STEP / statistics.median(facts["seconds"]), facts["peak_bytes"])


def compare(model: str, precision: str, rounds: int, steps: int) -> list[str]:
    """Table rows for one model in one precision."""
    measured: dict[str, list[Measured]] = {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        for variant in VARIANTS:
            measured[variant].append(run_variant(variant, model, precision, steps))
    rows: list[str] = []
    for variant, results in measured.items():
        speed = statistics.median(r.tokens_per_second for r in results)
        peak = max(r.peak_bytes for r in results)
        to_plain = _ratio(results, measured["plain"])
        to_full = _ratio(results, measured["everything fits"])
        ratios = f"{to_plain:>9}  {to_full:>12}"
        rows.append(f"{model:>5}  {precision}  {variant:<16} {speed:>9.0f}  {ratios}  {peak / GIB:>6.2f} GiB")
    return rows


def _ratio(results: Sequence[Measured], base: Sequence[Measured]) -> str:
    ratios = sorted(r.tokens_per_second / b.tokens_per_second for r, b in zip(results, base, strict=True))
    return f"{statistics.median(ratios):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Engine beside the plain in-memory loop, as ratios in one run.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp32"], choices=["bf16", "fp32"])
    options = parser.parse_args(arguments)
    out = sys.stdout
    out.write(f"{SEQUENCES} sequences of {TOKENS} tokens a step; {options.rounds} rounds of {options.steps} steps\n")
    out.write(f"{'model':>5}  prec  {'variant':<16} {'tokens/s':>9}  {'to plain':>9}  {'to fits':>12}  {'peak':>10}\n")
    for model in options.models:
        for precision in options.precisions:
            out.write("\n".join(compare(model, precision, options.rounds, options.steps)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
