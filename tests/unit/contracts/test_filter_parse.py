"""The filter language: what is understood, and what is said where it is not."""

from datetime import UTC, date, datetime

import pytest

from horizon_app.contracts.filter_parse import parse_filter
from horizon_app.contracts.run_filter import (
    Ago,
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    FilterRefused,
    Holds,
    Not,
    Words,
)

UNDERSTOOD: dict[str, Filter | None] = {
    "": None,
    "  ": None,
    "run 77": AllOf((Words("run"), Words("77"))),
    '"run 77"': Words("run 77"),
    '"say ""hi"""': Words('say "hi"'),
    '"and"': Words("and"),
    "don't wow! 日本 a/b.c": AllOf((Words("don't"), Words("wow!"), Words("日本"), Words("a/b.c"))),
    "loss < 2 and tag:lora and model:qwen": AllOf(
        (Comparison("loss", "<", 2.0), Comparison("tag", "=", "lora"), Holds("model", "qwen"))
    ),
    "a or b c": AnyOf((Words("a"), AllOf((Words("b"), Words("c"))))),
    "NOT (a OR b) AND c": AllOf((Not(AnyOf((Words("a"), Words("b")))), Words("c"))),
    "device:cuda:0": Holds("device", "cuda:0"),
    "state:Running": Comparison("state", "=", "running"),
    "name != x": Comparison("name", "!=", "x"),
    "eval/loss<=1e-3": Comparison("eval/loss", "<=", 0.001),
    "parameters > 1.5B": Comparison("parameters", ">", 1.5e9),
    "created >= 2026-11-30": Comparison("created", ">=", date(2026, 11, 30)),
    "ended < 2026-11-30T18:00+02:00": Comparison("ended", "<", datetime(2026, 11, 30, 16, tzinfo=UTC)),
    "started > 7d": Comparison("started", ">", Ago(604800.0)),
    "duration > 1h30m": Comparison("duration", ">", 5400.0),
    "duration < 90": Comparison("duration", "<", 90.0),
    "training.learning_rate = 2e-5": Comparison("training.learning_rate", "=", 2e-5),
    "training.seed:5": Comparison("training.seed", "=", 5.0),
    "offload.policy:lru": Holds("offload.policy", "lru"),
    "offload.host_memory >= 16GiB": Comparison("offload.host_memory", ">=", float(16 << 30)),
    "offload.host_memory = auto": Comparison("offload.host_memory", "=", "auto"),
    "data.packing = false": Comparison("data.packing", "=", False),
    "offload.disk_path = null": Comparison("offload.disk_path", "=", None),
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_filter_that_is_right_is_understood(text: str) -> None:
    assert parse_filter(text) == UNDERSTOOD[text]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("loss < abc", 8, "a number was expected after loss <, found 'abc'"),
        ("loss <", 7, "a number was expected"),
        ("loss < 1e999", 8, "a number was expected"),
        ("tga:lora", 1, 'did you mean tag?; to search for the text, write "tga:lora"'),
        ("a trainin.learning_rate = 1", 3, "did you mean training.learning_rate?"),
        ("see http://x.y/z", 5, 'to search for the text, write "http://x.y/z"'),
        ("state:runing", 7, "did you mean running?"),
        ("name < 3", 8, "write name:3"),
        ("created = 7d", 11, "write created > 7d"),
        ("created > yesterday", 11, "a day such as 2026-11-30"),
        ("created > 0001-01-01", 11, "the year 1 can't be meant"),
        ("duration > long", 12, "a duration such as"),
        ("offload.host_memory > big", 23, "units are KiB, MiB and GiB"),
        ("training.seed > x", 17, "a number was expected"),
        ("a and", 6, "the filter ends here"),
        ("a or or b", 6, 'to search for the word, write "or"'),
        ("(a or b", 1, "'(' is not closed"),
        ("a)", 2, "')' closes nothing"),
        ("x ()", 3, "to search for brackets"),
        ('run "77', 5, "the quotation mark is not closed"),
        ('a ""', 3, "nothing stands between"),
        ("< 2", 1, "a word or a field was expected, found '<'"),
        ("a\0b", 2, "NUL"),
        ("(" * 31 + "a" + ")" * 31, 32, "more than 30 brackets"),
        ("a " * 101, 201, "more than 100 terms"),
        ("x" * 4001, 4001, "4000 is the most"),
    ],
)
def test_filter_that_is_wrong_is_refused_with_the_column_and_what_to_do(text: str, column: int, said: str) -> None:
    with pytest.raises(FilterRefused) as refused:
        parse_filter(text)
    assert refused.value.column == column
    assert said in str(refused.value)
