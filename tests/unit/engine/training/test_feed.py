"""Batches cut and joined: every sequence once, in the source's order."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horizon_app.data.batches import Batch
from horizon_app.engine.training.feed import BatchFeed, FeedPosition

TOKENS = 3


def batch(first: int, sequences: int, *, origins: bool = True) -> Batch:
    rows = np.arange(first, first + sequences)[:, None].repeat(TOKENS, 1)
    return Batch(
        input_ids=rows, labels=rows + 1000, position_ids=rows + 2000, num_samples=2 * sequences,
        origins=tuple(f"line {i}" for i in range(first, first + sequences)) if origins else (),
    )  # fmt: skip


class Source:
    """Made batches by number; counts those that were asked for."""

    def __init__(self, made: Iterable[Batch]) -> None:
        self._made = made
        self.asked = 0

    def batches(self, first_step: int) -> Iterator[Batch]:
        for made in itertools.islice(self._made, first_step - 1, None):
            self.asked += 1
            yield made


def sized(sizes: list[int]) -> list[Batch]:
    starts = itertools.accumulate(sizes, initial=0)
    return [batch(start, size) for start, size in zip(starts, sizes, strict=False)]


def feed_of(made: Iterable[Batch], start: FeedPosition | None = None) -> BatchFeed:
    return BatchFeed(Source(made), start or FeedPosition())


@given(st.lists(st.integers(1, 7), max_size=12), st.lists(st.integers(1, 15), min_size=1, max_size=30))
def test_batch_feed_hands_out_every_sequence_once_in_order(sizes: list[int], asked: list[int]) -> None:
    feed, seen = feed_of(sized(sizes)), 0
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
    assert feed_of([made]).take(4) is made


def test_batch_feed_asks_the_source_for_no_more_than_it_needs() -> None:
    source = Source(batch(4 * number, 4) for number in itertools.count())
    feed = BatchFeed(source, FeedPosition())
    for sequences, asked in ((4, 1), (2, 2), (2, 2), (5, 4)):
        feed.take(sequences)
        assert source.asked == asked


@given(st.lists(st.integers(1, 7), min_size=1, max_size=12), st.lists(st.integers(1, 9), max_size=12), st.data())
def test_batch_feed_that_starts_where_another_stands_goes_on_as_that_one(
    sizes: list[int], asked: list[int], data: st.DataObject
) -> None:
    first = feed_of(sized(sizes))
    for sequences in asked:
        first.take(sequences)
    second = feed_of(sized(sizes), first.position)
    assert second.position == first.position
    for sequences in data.draw(st.lists(st.integers(1, 9), max_size=5)):
        one, other = first.take(sequences), second.take(sequences)
        assert (one is None) == (other is None)
        assert one is None or other is None or one.input_ids.tolist() == other.input_ids.tolist()


@pytest.mark.parametrize("takes", [[2, 2], [3, 1], [8]])
def test_batch_feed_samples_are_shared_out_by_sequences(takes: list[int]) -> None:
    feed = feed_of(sized([4, 4]))
    taken = [feed.take(sequences) for sequences in takes]
    assert [made.num_samples for made in taken if made is not None] == [2 * sequences for sequences in takes]


def test_batch_feed_sources_that_tell_no_origins_stay_without() -> None:
    feed = feed_of([batch(0, 2, origins=False), batch(2, 2, origins=False)])
    assert [made.origins for made in (feed.take(3), feed.take(1)) if made is not None] == [(), ()]
