import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.data import packing
from horizon_app.data.packing import one_a_row, pack


def plain_first_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    rows: list[list[int]] = []
    for sample, length in enumerate(lengths):
        for row in rows:
            if sum(lengths[other] for other in row) + length <= capacity:
                row.append(sample)
                break
        else:
            rows.append([sample])
    return rows


@given(st.integers(1, 40).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(1, c), max_size=60))))
def test_packing_gives_what_a_plain_first_fit_gives(case: tuple[int, list[int]]) -> None:
    capacity, lengths = case
    rows = pack(np.arange(len(lengths)), np.array(lengths, np.int64), capacity)
    found = [rows.members[rows.starts[r] : rows.starts[r + 1]].tolist() for r in range(len(rows))]
    assert found == plain_first_fit(lengths, capacity)


def test_no_packing_puts_every_sample_into_a_row_of_its_own() -> None:
    rows = one_a_row(np.array([4, 5, 9]))
    assert len(rows) == 3
    assert rows.members.tolist() == [4, 5, 9]


def test_packing_of_many_samples_closes_rows_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_OPEN_SAMPLES", 4)
    samples = np.array([3, 1, 4, 10, 5, 9, 2, 6, 7])
    rows = pack(samples, np.full(9, 3), 10)
    assert [rows.members[rows.starts[r] : rows.starts[r + 1]].tolist() for r in range(len(rows))] == [
        [3, 1, 4], [10], [5, 9, 2], [6], [7],
    ]  # fmt: skip
