"""Which stored tensors make which tensors of a model, by the conversion mapping that transformers itself loads with.

A family's checkpoints may name and cut tensors otherwise than its model does: experts one by one, projections fused or
apart. Which tensor makes which, and of what shape, is found out on the meta device, before any value is read.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Concatenate,
    MergeModulelist,
    WeightConverter,
    WeightRenaming,
    dot_natural_key,
    rename_source_key,
)
from transformers.utils.loading_report import LoadStateDictInfo

Read = Callable[[str], torch.Tensor]
Sources = Mapping[str, tuple[str, ...]]
AS_IT_IS = ""
"""Stands for the pattern of a stored tensor that no converter takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Part of a conversion that can be carried out by itself."""

    sources: Sources
    first_row: int  # of the target


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """Stored tensors, and the conversion that makes one or several tensors of the model of them."""

    target: str  # the first of those that it makes
    sources: Sources  # stored names in order, by the pattern that they matched
    converter: WeightConverter | None  # None: taken as it is
    shapes: Mapping[str, tuple[int, ...]]  # of all that it makes

    @property
    def stored_name(self) -> str:
        """The first stored tensor."""
        return next(iter(self.sources.values()))[0]

    @property
    def num_stored(self) -> int:
        """How many stored tensors it takes."""
        return sum(len(names) for names in self.sources.values())

    def pieces(self) -> Iterator[Piece]:
        """The conversion in parts that need little memory: experts stored one by one are fused one by one."""
        counts = {len(names) for names in self.sources.values()}
        if self.converter is None or len(counts) != 1 or not _stacks_row_by_row(self.converter):
            yield Piece(sources=self.sources, first_row=0)
            return
        for row in range(counts.pop()):
            sources = {pattern: (names[row],) for pattern, names in self.sources.items()}
            yield Piece(sources=sources, first_row=row)

    def make(self, model: PreTrainedModel, read: Read, piece: Piece) -> dict[str, torch.Tensor]:
        """The tensors of the model, by name; of a piece, only its rows. `read` gives a stored tensor's values."""
        return _make(model, self.target, piece.sources, self.converter, read)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """How a whole checkpoint becomes a model."""

    assemblies: tuple[Assembly, ...]
    unknown: tuple[str, ...]  # stored tensors that the model has no use for, and that transformers does not pass over
    failures: tuple[str, ...]  # conversions that the stored shapes do not allow, in words

    def makers(self) -> dict[str, Assembly]:
        """Every tensor that is made, with what makes it."""
        return {name: assembly for assembly in self.assemblies for name in assembly.shapes}


def plan_conversion(model: PreTrainedModel, stored: Mapping[str, tuple[int, ...]]) -> Conversion:
    """Find out what the `stored` tensors (by name, with their shapes) make. The model may be on the meta device."""
    transforms = get_model_conversion_mapping(model)
    converters = [transform for transform in transforms if isinstance(transform, WeightConverter)]
    renamings = [transform for transform in transforms if isinstance(transform, WeightRenaming)]
    known, prefix = model.state_dict(), model.base_model_prefix
    gathered: dict[str, dict[str, list[str]]] = {}
    unknown: list[str] = []
    for name in sorted(stored, key=dot_natural_key):
        target, pattern = rename_source_key(name, renamings, converters, prefix, known)
        if target not in known and name in known:  # stored in the model's own layout already
            target, pattern = rename_source_key(name, [], [], prefix, known)
        if target in known:
            gathered.setdefault(target, {}).setdefault(pattern or AS_IT_IS, []).append(name)
        else:
            unknown.append(name)
    by_pattern = {pattern: converter for converter in converters for pattern in converter.source_patterns}
    assemblies: list[Assembly] = []
    failures: list[str] = []
    for target, named in gathered.items():
        sources = {pattern: tuple(names) for pattern, names in named.items()}
        made = _assembly(model, target, sources, by_pattern, stored)
        if isinstance(made, Assembly):
            assemblies.append(made)
        else:
            failures.append(made)
    return Conversion(
        assemblies=tuple(assemblies), unknown=tuple(_not_passed_over(model, unknown)), failures=tuple(failures)
    )  # fmt: skip


def _assembly(
    model: PreTrainedModel, target: str, sources: Sources, by_pattern: Mapping[str, WeightConverter],
    stored: Mapping[str, tuple[int, ...]],
) -> Assembly | str:  # fmt: skip
    """What makes `target`, or why nothing can."""
    names = [name for group in sources.values() for name in group]
    if AS_IT_IS in sources:
        if len(names) > 1:
            return f"{target} is stored {len(names)} times: {', '.join(names[:5])}"
        shapes = {target: stored[names[0]]}
        return Assembly(target=target, sources=sources, converter=None, shapes=shapes)
    converter = by_pattern[next(iter(sources))]
    try:
        made = _make(model, target, sources, converter, lambda name: torch.empty(stored[name], device="meta"))
    # An operation on shapes that it was not made for fails in its own way.
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{target} can't be made of {len(names)} stored tensors, {names[0]} to {names[-1]}: {error}"
    shapes = {name: tuple(tensor.shape) for name, tensor in made.items()}
    return Assembly(target=target, sources=sources, converter=converter, shapes=shapes)


def _make(
    model: PreTrainedModel, target: str, sources: Sources, converter: WeightConverter | None, read: Read
) -> dict[str, torch.Tensor]:
    if converter is None:
        return {target: read(next(iter(sources.values()))[0])}
    conversion = deepcopy(converter)
    for pattern, names in sources.items():
        for name in names:
            conversion.add_tensor(target, name, pattern, lambda name=name: read(name))  # type: ignore[arg-type]
    made = conversion.convert(target, model=model, config=model.config)
    # Operations answer lists of one, whatever their annotation says.
    return {name: tensor if isinstance(tensor, torch.Tensor) else tensor[0] for name, tensor in made.items()}


def _stacks_row_by_row(converter: WeightConverter) -> bool:
    """Whether row i of the result is made of the i-th tensor of each pattern alone."""
    first, *others = converter.operations
    stacks = isinstance(first, MergeModulelist) and first.dim == 0
    return stacks and all(isinstance(other, Concatenate) and other.dim > 0 for other in others)


def _not_passed_over(model: PreTrainedModel, names: list[str]) -> list[str]:
    """Those that transformers does not know as left over from older versions or other heads."""
    report = LoadStateDictInfo(
        missing_keys=set(), unexpected_keys=set(names), mismatched_keys=set(), error_msgs=[], conversion_errors={},
        skipped_pp_keys=set(),
    )  # fmt: skip
    model._adjust_missing_and_unexpected_keys(report)
    return [name for name in names if name in report.unexpected_keys]
