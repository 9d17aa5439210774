"""Rows of JSON come out as they went in, whatever the layout of the file and wherever it is cut while reading."""

import io
import json
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from horizon_app.data.json_text import read_json_text
from horizon_app.data.shapes import is_row_key

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ROWS = st.lists(st.fixed_dictionaries({"text": VALUES, "more": VALUES}), min_size=1, max_size=5)


def laid_out(rows: list[dict[str, Any]], layout: str, indent: int | None, ascii_only: bool) -> str:
    options: dict[str, Any] = {"indent": indent, "ensure_ascii": ascii_only}
    if layout == "array":
        return json.dumps(rows, **options)
    if layout == "wrapped":
        return json.dumps({"version": {"a": [1]}, "data": rows, "after": 3}, **options)
    return "\r\n".join(json.dumps(row, **options) for row in rows)


@given(
    rows=ROWS, layout=st.sampled_from(["array", "wrapped", "objects"]), indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(), chunk=st.integers(4, 40),
)  # fmt: skip
def test_rows_of_json_are_what_was_written(
    rows: list[dict[str, Any]], layout: str, indent: int | None, ascii_only: bool, chunk: int
) -> None:
    content = laid_out(rows, layout, indent, ascii_only).encode("utf-8", "surrogatepass")
    with patch("horizon_app.data.lines._CHUNK_BYTES", chunk):
        records = list(read_json_text(io.BytesIO(content), lambda line, key: None, is_row_key))
    assert [record.value for record in records] == rows
    starts = [record.line for record in records]
    assert starts == sorted(starts)
