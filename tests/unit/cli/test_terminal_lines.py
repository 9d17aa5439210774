import json

import pytest

from horizon_app.cli.printable import printable, write_json, write_lines
from horizon_app.cli.problem_lines import problem_line
from horizon_app.cli.quantities import show_metric, show_seconds
from horizon_app.contracts.problems import FieldProblem


def test_problem_line_with_everything_reads_place_field_message_fix() -> None:
    problem = FieldProblem(field="offload.policy", message="odd", fix="use lru", file="spec.yaml", line=7)
    assert problem_line(problem) == "spec.yaml:7: offload.policy: odd (use lru)"


def test_problem_line_without_place_is_its_message() -> None:
    assert problem_line(FieldProblem(field="", message="odd")) == "odd"


@pytest.mark.parametrize(("seconds", "shown"), [(4.24, "4.2 s"), (61, "1:01"), (3723, "1:02:03")])
def test_seconds_are_shown_as_a_duration(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_metric_that_was_not_finite_is_shown_as_a_dash() -> None:
    assert show_metric(None, ".1%") == "–"
    assert show_metric(0.5, ".1%") == "50.0%"


ODD = "a\x1b[31mb\x9b1m\r\u202eexe.txt \u2028 \ud800 运行 👩‍🚀"
"""A colour in two ways, a line written over, text turned around, a line end of another kind, half a character."""


def test_text_that_a_terminal_would_obey_is_spelt_out_and_the_rest_is_not() -> None:
    spelt = "a\\x1b[31mb\\x9b1m\\x0d\\u202eexe.txt \\u2028 \\ud800 运行 👩‍🚀"
    assert printable(ODD) == spelt
    assert printable("one\n\ttwo") == "one\n\ttwo"


def test_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(["a\nb\x07", "c"])
    assert capsys.readouterr().out == "a\\nb\\x07\nc\n"


def test_json_is_the_same_with_nothing_in_it_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(json.dumps({"name": ODD}, ensure_ascii=False))
    written = capsys.readouterr().out
    assert json.loads(written) == {"name": ODD} and "运行 👩‍🚀" in written
    assert printable(written) == written
