"""Commands as they stand in a run's folder: one JSON object a line."""

import json

import pytest
from pydantic import ValidationError

from horizon_app.contracts.commands import COMMAND, SetKnobs, StopRun
from horizon_app.contracts.knobs import AskedChange, Knob, KnobValue
from horizon_app.contracts.run_spec import spec_schema


def change(knob: Knob, value: KnobValue) -> AskedChange:
    return AskedChange(number=1, knob=knob, value=value, who="ada")


@pytest.mark.parametrize(
    "command",
    [
        StopRun(save=False), SetKnobs(changes=[change(Knob.PREFETCH_WINDOW, "auto")]),
        SetKnobs(changes=[change(Knob.PREFETCH_WINDOW, 0), change(Knob.MAX_GPU_BLOCKS, 7)]),
        SetKnobs(changes=[change(Knob.POLICY, "lru"), change(Knob.CHECKPOINT_EVERY, 0)]),
    ],
)  # fmt: skip
def test_command_survives_its_line(command: StopRun | SetKnobs) -> None:
    assert COMMAND.validate_json(command.model_dump_json()) == command


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("prefetch_window", 65), ("max_gpu_blocks", 0), ("max_gpu_blocks", "auto"), ("policy", "fifo"),
        ("host_memory", 1), ("checkpoint.every", -1), ("checkpoint.every", 1.5),
    ],
)  # fmt: skip
def test_command_that_asks_for_a_value_that_can_not_be_is_refused(knob: str, value: object) -> None:
    line = {"type": "set", "changes": [{"number": 1, "knob": knob, "value": value}]}
    with pytest.raises(ValidationError):
        COMMAND.validate_json(json.dumps(line))


@pytest.mark.parametrize("line", ['{"type": "set"}', '{"type": "set", "changes": []}', '{"type": "dance"}'])
def test_command_that_asks_for_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        COMMAND.validate_json(line)


def test_knobs_are_the_keys_of_the_spec_that_are_marked_live() -> None:
    defined = spec_schema()["$defs"]
    sections = {name: defined[part["$ref"].rpartition("/")[2]] for name, part in _sections().items()}
    marked = {
        f"{section}.{key}"
        for section, schema in sections.items()
        for key, field in schema["properties"].items()
        if field.get("x-live")
    }
    assert marked == {knob.spec_key for knob in Knob}


def _sections() -> dict[str, dict[str, str]]:
    return {name: part for name, part in spec_schema()["properties"].items() if "$ref" in part}
