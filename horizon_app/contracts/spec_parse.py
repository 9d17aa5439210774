"""From a mapping to a run spec, with problems that name the field, what is wrong and the nearest right key."""

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.run_spec import RunSpec


def parse_spec(document: Any) -> RunSpec:
    """The run spec of a decoded YAML or JSON document. Raises SpecRefused with one entry per faulty field."""
    if not isinstance(document, dict):
        what = "nothing" if document is None else type(document).__name__
        raise SpecRefused(
            [
                FieldProblem(
                    field="",
                    message=f"a run spec is a mapping of keys to values, found {what}",
                    fix="see /api/v1/spec/schema",
                )
            ]
        )
    try:
        return RunSpec.model_validate(document)
    except ValidationError as error:
        raise SpecRefused([_problem(dict(e)) for e in error.errors(include_url=False)]) from None


def _problem(error: dict[str, Any]) -> FieldProblem:
    loc = [str(part) for part in error["loc"] if not _is_union_branch(part)]
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])  # the user's own word, whatever it looks like
        loc = [*(loc[:-1] if loc[-1:] == [key] else loc), key]
        return FieldProblem(field=".".join(loc), message=f"unknown key {key!r}", fix=_nearest(loc))
    field = ".".join(loc)
    if error["type"] == "missing":
        return FieldProblem(field=field, message="required, but missing", fix=f"add {field}")
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
        head, _, fix = message.partition("; ")
        return FieldProblem(field=field, message=head, fix=fix)
    shown = repr(error["input"])
    found = f", found {shown if len(shown) <= 80 else shown[:77] + '...'}"
    return FieldProblem(field=field, message=f"{error['msg'][0].lower()}{error['msg'][1:]}{found}", fix="")


def _is_union_branch(part: object) -> bool:
    """Pydantic adds the branch of a union (`int`, `list[str]`, `function-…`) to the path; users never wrote it."""
    return isinstance(part, str) and (
        part in {"int", "str", "float", "bool", "none"} or ("[" in part and not part[0].isdigit())
    )


def _nearest(loc: list[str]) -> str:
    here = _section(RunSpec, loc[:-1])
    elsewhere = {
        key: f"{name}.{key}"
        for name, f in RunSpec.model_fields.items()
        for key in getattr(f.annotation, "model_fields", {})
    }
    if here is not None:
        near = difflib.get_close_matches(loc[-1], list(here.model_fields), n=1, cutoff=0.6)
        if near:
            return f"did you mean {'.'.join([*loc[:-1], near[0]])}?"
    near = difflib.get_close_matches(loc[-1], list(elsewhere), n=1, cutoff=0.6)
    if near:
        return f"did you mean {elsewhere[near[0]]}?"
    keys = ", ".join(here.model_fields) if here is not None else ""
    return f"known keys here: {keys}" if keys else "remove it"


def _section(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    current: type[BaseModel] = model
    for key in path:
        info = current.model_fields.get(key)
        if info is None:
            return None
        kinds = [info.annotation, *get_args(info.annotation)]
        nested = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        if not nested:
            return None
        current = nested[0]
    return current
