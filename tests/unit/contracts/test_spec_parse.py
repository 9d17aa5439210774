"""From a document to a spec: sizes, YAML's words, nearest keys, and values that can't run yet."""

from typing import Any

import pytest

from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.run_spec import (
    AccumulationPolicy,
    Disk,
    OffloadSpec,
    Policy,
    PrecisionSpec,
    spec_schema,
)
from horizon_app.contracts.spec_parse import parse_spec

LEAST: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "d"}}


def refused(**sections: Any) -> dict[str, tuple[str, str]]:
    with pytest.raises(SpecRefused) as failure:
        parse_spec({**LEAST, **sections})
    found = {error.field: (error.message, error.fix) for error in failure.value.errors}
    assert len(found) == len(failure.value.errors), "a field is told of twice"
    return found


def offload(**fields: Any) -> OffloadSpec:
    return parse_spec({**LEAST, "offload": fields}).offload


def precision(**fields: Any) -> PrecisionSpec:
    return parse_spec({**LEAST, "precision": fields}).precision


def test_spec_of_two_paths_is_enough_and_survives_its_own_json() -> None:
    spec = parse_spec(LEAST)
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize("key", ["", "int", "[", "list[str]", "function-after[f]", "\b[=\u00bc"])
@pytest.mark.parametrize("section", [None, "training"])
def test_unknown_keys_that_look_like_a_validators_own_words_are_named(section: str | None, key: str) -> None:
    paths: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "d"}}
    with pytest.raises(SpecRefused) as refused:
        parse_spec({**paths, key: 1} if section is None else {**paths, section: {key: 1}})
    [problem] = refused.value.errors
    assert problem.field == (key if section is None else f"{section}.{key}")
    assert problem.message == f"unknown key {key!r}"


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
        ("compression", "gradients", "one_bit"), ("compression", "parameters", "delta"),
        ("compression", "activations", "int8"), ("compute", "fuse_linears", True), ("compute", "cuda_graphs", True),
        ("compute", "cpu_layers", 5.0),
    ],
)  # fmt: skip
def test_values_of_later_versions_are_refused_by_name(section: str, key: str, value: object) -> None:
    sections: dict[str, Any] = {**LEAST, section: {**LEAST.get(section, {}), key: value}}
    message, fix = refused(**sections)[f"{section}.{key}"]
    assert "not available yet" in message
    assert fix.startswith("use ")


def test_defaults_that_the_engine_is_built_around() -> None:
    spec = parse_spec(LEAST)
    assert (spec.offload.policy, spec.offload.disk, spec.offload.prefetch_window) == (Policy.CLOCK_PRO, Disk.AUTO, 3)
    assert (spec.accumulation.policy, spec.accumulation.keep_global_batch) == (AccumulationPolicy.ADAPTIVE, True)
    assert (spec.precision.loss_scale, spec.precision.keep_fp32) == ("dynamic", ["norm"])


@pytest.mark.parametrize(("written", "window"), [("auto", "auto"), (0, 0), (64, 64), ("5", 5)])
def test_prefetch_window_is_auto_or_a_number_of_steps(written: object, window: object) -> None:
    assert offload(prefetch_window=written).prefetch_window == window


@pytest.mark.parametrize("written", [-1, 65, 1.5, "many", True, [3], None])
def test_prefetch_window_of_anything_else_is_refused_once(written: object) -> None:
    assert refused(offload={"prefetch_window": written}).keys() == {"offload.prefetch_window"}


@pytest.mark.parametrize(("written", "scale"), [("dynamic", "dynamic"), (1024, 1024.0), ("1e4", 1e4), (0.5, 0.5)])
def test_loss_scale_of_fp16_is_dynamic_or_a_number(written: object, scale: object) -> None:
    assert precision(compute="fp16", loss_scale=written).loss_scale == scale


@pytest.mark.parametrize("written", [0, -1, float("inf"), float("nan"), "big", True, None])
def test_loss_scale_that_scales_nothing_is_refused_once(written: object) -> None:
    found = refused(precision={"compute": "fp16", "loss_scale": written})
    assert found.keys() == {"precision.loss_scale"}
    assert "dynamic" in found["precision.loss_scale"][0]


@pytest.mark.parametrize("compute", ["auto", "fp32", "bf16"])
def test_loss_scale_without_fp16_is_refused_with_the_way_out(compute: str) -> None:
    message, fix = refused(precision={"loss_scale": 1024, "compute": compute})["precision.loss_scale"]
    assert f"no effect with precision.compute {compute}" in message
    assert fix == "set precision.compute to fp16 or leave loss_scale out"


def test_loss_scale_beside_a_format_that_is_none_is_not_blamed() -> None:
    assert refused(precision={"compute": "fp8", "loss_scale": 1024}).keys() == {"precision.compute"}


def test_keep_fp32_takes_parts_of_module_names() -> None:
    words = ["norm", "lm_head", "layers.0.mlp.down_proj"]
    assert precision(keep_fp32=words).keep_fp32 == words


@pytest.mark.parametrize("word", ["", "mlp/down", "lm head", "a*"])
def test_keep_fp32_of_what_no_module_is_called_is_refused(word: str) -> None:
    message, fix = refused(precision={"keep_fp32": ["norm", word]})["precision.keep_fp32"]
    assert repr(word) in message and "lm_head" in fix


@pytest.mark.parametrize(("key", "value"), [("disk_path", "spill"), ("disk_memory", "4GiB")])
def test_disk_settings_need_a_disk_tier(key: str, value: str) -> None:
    assert getattr(offload(**{key: value, "disk": "on"}), key)
    message, fix = refused(offload={key: value, "disk": False})[f"offload.{key}"]
    assert message == f"{key} is given, but offload.disk is off" and fix


def test_micro_batches_must_make_the_global_batch() -> None:
    problems = refused(training={"global_batch_size": 8, "micro_batch_size": 2}, accumulation={"steps": 3})
    assert "3 x training.micro_batch_size 2 = 6" in problems[""][0]


def test_schema_says_of_every_knob_its_unit_and_what_can_not_be_chosen() -> None:
    sections = spec_schema()["$defs"]
    assert sections["OffloadSpec"]["properties"]["prefetch_window"]["x-unit"] == "compute steps"
    assert "delta" in sections["CompressionSpec"]["properties"]["parameters"]["x-unavailable"]


def test_schema_of_a_number_or_a_word_tells_both() -> None:
    sections = spec_schema()["$defs"]
    window = sections["OffloadSpec"]["properties"]["prefetch_window"]["anyOf"]
    scale = sections["PrecisionSpec"]["properties"]["loss_scale"]["anyOf"]
    assert window == [{"type": "string", "const": "auto"}, {"type": "integer", "minimum": 0, "maximum": 64}]
    assert scale == [{"type": "string", "const": "dynamic"}, {"type": "number", "exclusiveMinimum": 0}]


def test_eval_data_is_named_once() -> None:
    sections = {**LEAST, "data": {"path": "d", "eval_path": ["e", "f"], "eval_fraction": 0.1}}
    assert "both given" in refused(**sections)["data"][0]
    assert "no file named" in refused(**{**LEAST, "data": {"path": "d", "eval_path": []}})["data.eval_path"][0]
