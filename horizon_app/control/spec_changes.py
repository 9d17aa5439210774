"""New values laid over a spec document before it is parsed."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

from horizon_app.contracts.problems import FieldProblem, SpecRefused


def laid_over(spec: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of a spec with each change at its dotted key. Raises SpecRefused."""
    document = copy.deepcopy(spec)
    problems: list[FieldProblem] = []
    for key, value in changes.items():
        try:
            document = lay_over(document, key.split("."), copy.deepcopy(value))
        except ValueError as error:
            problems.append(
                FieldProblem(field=key, message=str(error), fix="write the key as the spec's reference does")
            )
    if problems:
        raise SpecRefused(problems)
    return document


def lay_over(document: Any, path: Sequence[str], value: Any) -> Any:
    """Put a value into a document, which is changed and given back; unknown keys are for the parser to tell.

    Raises ValueError where the path runs through something that has no keys.
    """
    document = {} if document is None else document
    here = document
    for depth, key in enumerate(path):
        if not isinstance(here, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the spec'} has no keys of its own")
        table = cast("dict[str, Any]", here)
        if depth == len(path) - 1:
            table[key] = value
        elif table.get(key) is None:
            table[key] = {}
        here = table[key]
    return document
