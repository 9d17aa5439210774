"""`--set key=value`: values laid over a spec document before it is parsed."""

import copy
import dataclasses
from typing import Any

import yaml

from horizon_app.cli.spec_file import KeyPath, SpecSource, parse_value
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.control.spec_changes import lay_over


def apply_overrides(source: SpecSource, settings: list[str]) -> SpecSource:
    """`source` with each `key=value` of `settings` laid over it, in order; values are typed as in YAML.

    Raises SpecRefused where an option has no value or runs through something that has no keys. An unknown key is found
    when the whole is parsed, and named with its nearest.
    """
    document: Any = copy.deepcopy(source.document)
    overrides = dict(source.overrides)
    problems: list[FieldProblem] = []
    for setting in settings:
        try:
            path, value = _split(setting)
            document = lay_over(document, path, value)
            overrides[path] = f"--set {setting}"
        except ValueError as error:
            problems.append(_problem(setting, error))
    if problems:
        raise SpecRefused(problems)
    return dataclasses.replace(source, document=document, overrides=overrides)


def read_changes(settings: list[str]) -> dict[str, Any]:
    """Each `key=value` by its dotted key, with its value typed as in YAML. Raises SpecRefused."""
    changes: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    for setting in settings:
        try:
            path, value = _split(setting)
            changes[".".join(path)] = value
        except ValueError as error:
            problems.append(_problem(setting, error))
    if problems:
        raise SpecRefused(problems)
    return changes


def _problem(setting: str, error: ValueError) -> FieldProblem:
    return FieldProblem(field=setting.partition("=")[0], message=str(error), file=f"--set {setting}")


def _split(setting: str) -> tuple[KeyPath, Any]:
    key, equals, text = setting.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ValueError("write it as section.key=value, for example training.optimizer_steps=50")
    try:
        return path, parse_value(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the value is not YAML: {' '.join(str(error).split())}") from error
