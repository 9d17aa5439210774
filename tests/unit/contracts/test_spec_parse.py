"""From a document to a spec: sizes, YAML's words, nearest keys, and values that can't run yet."""

from typing import Any

import pytest

from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_spec import spec_schema
from horizon_app.contracts.spec_parse import parse_spec

LEAST = {"model": {"path": "m"}, "data": {"path": "d"}}


def refused(**sections: Any) -> dict[str, tuple[str, str]]:
    with pytest.raises(SpecRefused) as failure:
        parse_spec({**LEAST, **sections})
    return {error.field: (error.message, error.fix) for error in failure.value.errors}


def test_spec_of_two_paths_is_enough_and_survives_its_own_json() -> None:
    spec = parse_spec(LEAST)
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("written", "size"), [("16MiB", 16 << 20), ("64 KiB", 64 << 10), (4096, 4096), ("1.5GiB", 3 << 29)]
)
def test_sizes_take_units_or_plain_bytes(written: object, size: int) -> None:
    assert parse_spec({**LEAST, "offload": {"host_memory": written}}).offload.host_memory == size


def test_words_that_yaml_reads_as_booleans_are_words_again() -> None:
    assert parse_spec({**LEAST, "offload": {"disk": False}}).offload.disk.value == "off"


def test_unknown_keys_name_the_nearest_one_also_in_another_section() -> None:
    problems = refused(offload={"polcy": "lru"}, prefetch_window=3)
    assert problems["offload.polcy"][1] == "did you mean offload.policy?"
    assert problems["prefetch_window"][1] == "did you mean offload.prefetch_window?"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("offload", "policy", "clock_pro"), ("offload", "disk", "on"), ("offload", "disk_path", "/x"),
        ("precision", "compute", "fp16"), ("precision", "optimizer_state", "int8"), ("precision", "keep_fp32", []),
        ("accumulation", "policy", "adaptive"), ("training", "gradient_ema", 0.5),
        ("compression", "gradients", "one_bit"), ("compression", "parameters", "delta"),
        ("compression", "activations", "int8"), ("compute", "fuse_linears", True), ("compute", "cuda_graphs", True),
        ("compute", "schedule", "micro_batch_major"), ("compute", "cpu_layers", 5.0), ("evaluation", "every", 7),
        ("samples", "every", 10),
    ],
)  # fmt: skip
def test_values_of_later_versions_are_refused_by_name(section: str, key: str, value: object) -> None:
    message, fix = refused(**{section: {key: value}})[f"{section}.{key}"]
    assert "not available yet" in message
    assert fix.startswith("use ")


def test_micro_batches_must_make_the_global_batch() -> None:
    problems = refused(training={"global_batch_size": 8, "micro_batch_size": 2}, accumulation={"steps": 3})
    assert "3 x training.micro_batch_size 2 = 6" in problems[""][0]


def test_schema_says_of_every_knob_its_unit_and_what_can_not_be_chosen() -> None:
    offload = spec_schema()["$defs"]["OffloadSpec"]["properties"]
    assert offload["prefetch_window"]["x-unit"] == "compute steps"
    assert "clock_pro" in offload["policy"]["x-unavailable"]
