"""Few combinations that together hold every pair of values of any two dimensions."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Pair = tuple[tuple[str, int], tuple[str, int]]


def pairwise(dimensions: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Rows, greedily: each takes, dimension by dimension, the value that covers most pairs not covered yet."""
    names = sorted(dimensions, key=lambda name: (-len(dimensions[name]), name))
    missing = _all_pairs(dimensions, names)
    rows: list[Row] = []
    while missing:
        row: dict[str, int] = {}
        (first, one), (second, two) = min(missing)
        row[first], row[second] = one, two
        for name in names:
            if name not in row:
                values = range(len(dimensions[name]))
                row[name] = max(values, key=lambda value: (_gain(row, name, value, missing), -value))
        missing -= {pair for pair in missing if all(row[name] == value for name, value in pair)}
        rows.append({name: dimensions[name][row[name]] for name in dimensions})
    return rows


def _all_pairs(dimensions: Mapping[str, Sequence[Any]], names: Sequence[str]) -> set[Pair]:
    return {
        ((a, i), (b, j))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(dimensions[a]))
        for j in range(len(dimensions[b]))
    }


def _gain(row: Mapping[str, int], name: str, value: int, missing: set[Pair]) -> int:
    mine = (name, value)
    return sum(((other, at), mine) in missing or (mine, (other, at)) in missing for other, at in row.items())
