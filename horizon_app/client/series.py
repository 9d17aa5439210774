"""One metric over optimizer steps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Self

from horizon_app.contracts.run_view import SeriesAnswer


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: `x` has the optimizer steps, `y` the values, NaN and infinities among them."""

    key: str
    x: list[int] = field(repr=False)
    y: list[float] = field(repr=False)

    @classmethod
    def all_of(cls, answer: SeriesAnswer) -> dict[str, Self]:
        """Every series of an answer by its key."""
        return {key: cls(key, found.x, _values(answer, key)) for key, found in answer.series.items()}

    @property
    def last(self) -> float | None:
        """The newest value; None where there is none."""
        return self.y[-1] if self.y else None

    def to_dict(self) -> Mapping[int, float]:
        """Value by optimizer step: what `pandas.Series` takes as it is."""
        return dict(zip(self.x, self.y, strict=True))

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return iter(zip(self.x, self.y, strict=True))

    def __repr__(self) -> str:
        if not self.x:
            return f"<Series {self.key}: no points>"
        return f"<Series {self.key}: {len(self.x)} points, steps {self.x[0]} to {self.x[-1]}, last {self.y[-1]:.6g}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def _values(answer: SeriesAnswer, key: str) -> list[float]:
    odd = {step: float(word) for step, word in answer.nonfinite.get(key, [])}
    found = answer.series[key]
    return [
        odd.get(step, float("nan")) if value is None else value for step, value in zip(found.x, found.y, strict=True)
    ]
