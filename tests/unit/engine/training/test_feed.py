"""Batches cut and joined: every sequence once, in the source's order."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.data.batches import Batch
from horizon_app.engine.training.feed import BatchFeed

TOKENS = 3


def batch(first: int, sequences: int, *, origins: bool = True) -> Batch:
    rows = np.arange(first, first + sequences)[:, None].repeat(TOKENS, 1)
    return Batch(
        input_ids=rows, labels=rows + 1000, position_ids=rows + 2000, num_samples=2 * sequences,
        origins=tuple(f"line {i}" for i in range(first, first + sequences)) if origins else (),
    )  # fmt: skip


def batches(sizes: list[int]) -> Iterator[Batch]:
    starts = itertools.accumulate(sizes, initial=0)
    return (batch(start, size) for start, size in zip(starts, sizes, strict=False))


@given(st.lists(st.integers(1, 7), max_size=12), st.lists(st.integers(1, 15), min_size=1, max_size=30))
def test_batch_feed_hands_out_every_sequence_once_in_order(sizes: list[int], asked: list[int]) -> None:
    feed, seen = BatchFeed(batches(sizes)), 0
    for sequences in asked:
        got = feed.take(sequences)
        expected = min(sequences, sum(sizes) - seen)
        if expected == 0:
            assert got is None
            continue
        assert got is not None
        numbers = list(range(seen, seen + expected))
        assert got.input_ids.tolist() == [[n] * TOKENS for n in numbers]
        assert got.labels.tolist() == [[n + 1000] * TOKENS for n in numbers]
        assert got.position_ids.tolist() == [[n + 2000] * TOKENS for n in numbers]
        assert got.origins == tuple(f"line {n}" for n in numbers)
        seen += expected


def test_batch_feed_batches_of_the_size_asked_for_pass_as_they_are() -> None:
    made = batch(0, 4)
    assert BatchFeed(iter([made])).take(4) is made


def test_batch_feed_asks_the_source_for_no_more_than_it_needs() -> None:
    asked: list[int] = []

    def source() -> Iterator[Batch]:
        for number in itertools.count():
            asked.append(number)
            yield batch(4 * number, 4)

    feed = BatchFeed(source())
    feed.take(4)
    assert asked == [0]
    feed.take(2)
    feed.take(2)
    assert asked == [0, 1]
    feed.take(5)
    assert asked == [0, 1, 2, 3]


@pytest.mark.parametrize("takes", [[2, 2], [3, 1], [8]])
def test_batch_feed_samples_are_shared_out_by_sequences(takes: list[int]) -> None:
    feed = BatchFeed(batches([4, 4]))
    taken = [feed.take(sequences) for sequences in takes]
    assert [made.num_samples for made in taken if made is not None] == [2 * sequences for sequences in takes]


def test_batch_feed_sources_that_tell_no_origins_stay_without() -> None:
    feed = BatchFeed(iter([batch(0, 2, origins=False), batch(2, 2, origins=False)]))
    assert [made.origins for made in (feed.take(3), feed.take(1)) if made is not None] == [(), ()]
