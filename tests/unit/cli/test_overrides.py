from pathlib import Path
from typing import Any

import pytest

from horizon_app.cli.overrides import apply_overrides
from horizon_app.cli.spec_file import SpecSource
from horizon_app.contracts.problems import SpecRefused


def source(**sections: Any) -> SpecSource:
    document = {"model": {"path": "m"}, "data": {"path": "d"}, **sections}
    return SpecSource(path=Path("spec.yaml"), document=document, lines={("data", "path"): 3})


def test_override_of_several_keys_gives_typed_values_in_order() -> None:
    settings = ["training.optimizer_steps=5", "tags=[a, b]", "training.optimizer_steps=7", "name=x=y"]
    spec = apply_overrides(source(), settings).parse()
    assert spec.training.optimizer_steps == 7
    assert spec.tags == ["a", "b"]
    assert spec.name == "x=y"


def test_override_leaves_the_source_as_it_was() -> None:
    before = source(training={"seed": 1})
    apply_overrides(before, ["training.seed=2"])
    assert before.document["training"] == {"seed": 1}
    assert before.overrides == {}


def test_override_of_a_whole_section_replaces_it() -> None:
    spec = apply_overrides(source(training={"seed": 1}), ["training={optimizer_steps: 3}"]).parse()
    assert (spec.training.seed, spec.training.optimizer_steps) == (0, 3)


def test_override_into_an_empty_section_fills_it() -> None:
    assert apply_overrides(source(training=None), ["training.seed=4"]).parse().training.seed == 4


def test_override_of_an_unknown_key_names_the_option_and_the_nearest_key() -> None:
    with pytest.raises(SpecRefused) as refused:
        apply_overrides(source(), ["training.optimiser_steps=5"]).parse()
    problem = refused.value.errors[0]
    assert problem.file == "--set training.optimiser_steps=5"
    assert problem.fix == "did you mean training.optimizer_steps?"
    assert problem.line is None


def test_override_with_a_bad_value_names_the_option_and_not_the_file() -> None:
    with pytest.raises(SpecRefused) as refused:
        apply_overrides(source(), ["data.path="]).parse()
    assert {problem.file for problem in refused.value.errors} == {"--set data.path="}


@pytest.mark.parametrize("setting", ["training.seed", "=5", "training.=5", ".seed=5", "name=[", "name.first=x", ""])
def test_override_that_cannot_be_laid_over_is_refused(setting: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        apply_overrides(source(name="n"), [setting])
    assert refused.value.errors[0].file == f"--set {setting}"


def test_override_of_a_spec_that_is_a_list_is_refused() -> None:
    listed = SpecSource(path=Path("spec.yaml"), document=["a"])
    with pytest.raises(SpecRefused, match="has no keys of its own"):
        apply_overrides(listed, ["name=x"])


def test_overrides_with_several_mistakes_name_all() -> None:
    with pytest.raises(SpecRefused) as refused:
        apply_overrides(source(), ["a", "b"])
    assert len(refused.value.errors) == 2
