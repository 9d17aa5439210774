"""Which knobs a run has, what they may be, and what is wrong with a value that was asked for. Knows no database."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from horizon_app.contracts.knobs import Knob, KnobRange, KnobValue, with_knobs
from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.spec_fields import WIDEST_WINDOW
from horizon_app.contracts.spec_parse import parse_spec
from horizon_app.contracts.spec_words import Policy
from horizon_app.control.errors import KnobsRefused, NeedsRestart
from horizon_app.control.resumption import FIXED
from horizon_app.planning.arena import SMALLEST_ARENA, most_slots


def values_in_force(
    spec: Mapping[str, Any], plan: Mapping[str, Any] | None, changed: Mapping[str, Any]
) -> dict[Knob, KnobValue | None]:
    """The value of every knob: of the spec, or what it was changed to; None where the model has yet to decide it."""
    values: dict[Knob, KnobValue | None] = {knob: _of_spec(spec, knob) for knob in Knob}
    if values[Knob.MAX_GPU_BLOCKS] == "auto":
        values[Knob.MAX_GPU_BLOCKS] = (plan or {}).get("max_gpu_blocks")
    return values | {knob: changed[knob] for knob in Knob if knob in changed}


def ranges(
    spec: Mapping[str, Any], plan: Mapping[str, Any] | None, changed: Mapping[str, Any]
) -> dict[Knob, KnobRange]:
    """Every knob with its value in force and what may be asked for."""
    plan = plan or {}
    blocks = plan.get("blocks")
    has_prompts = bool(spec.get("samples", {}).get("prompts"))
    limits: dict[Knob, dict[str, Any]] = {
        Knob.PREFETCH_WINDOW: {"minimum": 0, "maximum": WIDEST_WINDOW, "words": ["auto"], "unit": "compute steps"},
        Knob.MAX_GPU_BLOCKS: {
            "minimum": SMALLEST_ARENA, "maximum": most_slots(blocks) if isinstance(blocks, int) else None,
            "unit": "blocks", "fixed": _SHARED if plan.get("shares_host") else "",
        },
        Knob.POLICY: {"words": [policy.value for policy in Policy]},
        Knob.CHECKPOINT_EVERY: {"minimum": 0, "unit": "steps"},
        Knob.EVALUATION_EVERY: {"minimum": 0, "unit": "steps", "fixed": "" if _has_eval_data(spec) else _NO_EVAL_DATA},
        Knob.SAMPLES_EVERY: {"minimum": 0, "unit": "steps", "fixed": "" if has_prompts else _NO_PROMPTS},
    }  # fmt: skip
    values = values_in_force(spec, plan, changed)
    return {knob: KnobRange(knob=knob, spec_key=knob.spec_key, value=values[knob], **limits[knob]) for knob in Knob}


def read_wishes(
    wanted: Mapping[str, Any], spec: Mapping[str, Any], known: Mapping[Knob, KnobRange]
) -> dict[Knob, KnobValue]:
    """The values that were asked for by name. Raises KnobsRefused, NeedsRestart."""
    names = _find_all(wanted)
    fixed = [
        FieldProblem(field=name, message=f"can't change in this run: {known[knob].fixed}", fix="leave it out")
        for knob, name in names.items()
        if known[knob].fixed
    ]
    if fixed:
        raise KnobsRefused(fixed)
    try:
        parsed = parse_spec(with_knobs(spec, {knob: wanted[name] for knob, name in names.items()}))
    except SpecRefused as error:
        sent = {knob.spec_key: name for knob, name in names.items()}
        named = [
            problem.model_copy(update={"field": sent.get(problem.field, problem.field)}) for problem in error.errors
        ]
        raise KnobsRefused(named) from None
    resolved = parsed.model_dump(mode="json")
    values: dict[Knob, KnobValue] = {}
    for knob in names:
        section, _, key = knob.spec_key.partition(".")
        values[knob] = resolved[section][key]
    problems = [fault for knob, name in names.items() if (fault := _fault(values[knob], name, known[knob]))]
    if problems:
        raise KnobsRefused(problems)
    return values


_SHARED = "products read the weights where they lie in RAM: the arena holds gradients only"
_NO_EVAL_DATA = "the run has no eval data (data.eval_path or data.eval_fraction)"
_NO_PROMPTS = "the run has no prompts (samples.prompts)"


def _has_eval_data(spec: Mapping[str, Any]) -> bool:
    data = spec.get("data", {})
    return bool(data.get("eval_path") or data.get("eval_fraction"))


def _of_spec(spec: Mapping[str, Any], knob: Knob) -> KnobValue | None:
    section, _, key = knob.spec_key.partition(".")
    return spec.get(section, {}).get(key)


def _fault(value: KnobValue, name: str, known: KnobRange) -> FieldProblem | None:
    if value in known.words:
        return None
    span = f"{known.minimum} to {known.maximum}" if known.maximum is not None else f"{known.minimum} or more"
    if not isinstance(value, int):
        return FieldProblem(field=name, message=f"{value!r} is decided when a run starts", fix=f"name a number: {span}")
    if known.minimum is not None and value < known.minimum:
        return FieldProblem(
            field=name, message=f"{value} is less than the {known.minimum} {known.unit} that a step needs",
            fix=f"set it to {span}",
        )  # fmt: skip
    if known.maximum is not None and value > known.maximum:
        return FieldProblem(
            field=name, message=f"{value} is more than the {known.maximum} {known.unit} that this model has use for",
            fix=f"set it to {span}",
        )  # fmt: skip
    return None


def _find_all(wanted: Mapping[str, Any]) -> dict[Knob, str]:
    found: dict[Knob, str] = {}
    unknown: list[FieldProblem] = []
    fixed: list[FieldProblem] = []
    for name in wanted:
        knob = next((knob for knob in Knob if name in (knob.value, knob.spec_key)), None)
        if knob is not None and knob not in found:
            found[knob] = name
        elif knob is not None:
            unknown.append(FieldProblem(field=name, message=f"named twice, also as {found[knob]}", fix="leave one out"))
        elif spec_key := _spec_key(name):
            fixed.append(
                FieldProblem(field=spec_key, message="can't change while the run runs", fix=_restart(spec_key))
            )
        else:
            near = difflib.get_close_matches(name, list(Knob), n=1)
            fix = f"did you mean {near[0]}?" if near else f"knobs are {', '.join(Knob)}"
            unknown.append(FieldProblem(field=name[:80], message="there is no such knob", fix=fix))
    if unknown or not wanted:
        raise KnobsRefused(unknown or [FieldProblem(field="", message="no knob is named", fix=", ".join(Knob))])
    if fixed:
        raise NeedsRestart(fixed)
    return found


def _spec_key(name: str) -> str | None:
    """The dotted key of the spec that a name means, where there is exactly one."""
    keys = [
        f"{section}.{key}"
        for section, field in RunSpec.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        for key in field.annotation.model_fields
    ]
    meant = [key for key in keys if name in (key, key.rpartition(".")[2])]
    return meant[0] if len(meant) == 1 else None


def _restart(spec_key: str) -> str:
    if any(spec_key == fixed or spec_key.startswith(f"{fixed}.") for fixed in FIXED):
        return "start a new run with it"
    return f"stop the run and resume it with another {spec_key}"
