import pytest

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
