from typing import Any

import numpy as np
import pytest

from horizon_app.contracts.run_spec import TrainOn
from horizon_app.data import encoding
from horizon_app.data.encoding import encode_rows
from horizon_app.data.errors import ProblemList
from horizon_app.data.rows import TextRow
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer
from tests.unit.data.conftest import MakeTokenizer

LINES = "".join(f"line {number}\n" for number in range(200))


def test_long_text_reaches_the_tokenizer_in_small_groups_and_keeps_every_token(
    make_tokenizer: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_PART_CHARACTERS", 100)
    monkeypatch.setattr(encoding, "_GROUP_CHARACTERS", 300)
    tokenizer = load_tokenizer(make_tokenizer())
    whole = tokenizer.encode([LINES])[0]
    sizes: list[int] = []
    real_encode = tokenizer.encode

    def watched(texts: Any) -> Any:
        sizes.append(sum(len(text) for text in texts))
        return real_encode(texts)

    monkeypatch.setattr(tokenizer, "encode", watched)
    row = TextRow(file="a.txt", line=1, text=LINES)
    encoded = next(encode_rows([row], tokenizer, TrainOn.ALL, ProblemList()))
    assert sum(sizes) == len(LINES)
    assert max(sizes) <= 300
    assert np.array_equal(encoded.ids, [0, *whole, 1])


def test_text_that_begins_and_ends_with_the_marks_gets_none_twice(make_tokenizer: MakeTokenizer) -> None:
    tokenizer: Tokenizer = load_tokenizer(make_tokenizer())
    row = TextRow(file="a.txt", line=1, text="<s>words</s>")
    encoded = next(encode_rows([row], tokenizer, TrainOn.ALL, ProblemList()))
    assert encoded.ids.tolist() == tokenizer.encode(["<s>words</s>"])[0].tolist()
    assert encoded.ids.tolist().count(0) == encoded.ids.tolist().count(1) == 1
