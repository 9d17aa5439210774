"""Runs as objects: fields, lists, metrics, and what a notebook shows."""

import json
import math
from typing import Any, get_type_hints

import httpx
import pytest

from horizon_app.client import Horizon, Run
from horizon_app.contracts.run_view import RunDetail
from tests.support.made_up_server import document, horizon, problem


def one(*answers: dict[str, Any]) -> tuple[Run, list[httpx.Request]]:
    """A run, and what is asked after the first answer; the last one is repeated."""
    seen: list[httpx.Request] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=left.pop(0) if len(left) > 1 else left[0])

    run = horizon(answer).runs.get("r")
    seen.clear()
    return run, seen


def paged(num_runs: int, page: int) -> tuple[Horizon, list[dict[str, str]]]:
    """A server with that many runs, and the questions for its pages."""
    questions: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        questions.append(dict(request.url.params))
        first = int(request.url.params.get("cursor", 0))
        last = min(num_runs, first + min(page, int(request.url.params["limit"])))
        runs = [document(f"run{number}") for number in range(first, last)]
        body = {"runs": runs, "next_cursor": str(last) if last < num_runs else None, "total": num_runs, "counts": {}}
        return httpx.Response(200, json=body)

    return horizon(answer), questions


def test_list_without_a_limit_asks_for_pages_as_they_are_needed() -> None:
    client, questions = paged(num_runs=7, page=3)
    runs = client.runs.list("lora", state=["running", "paused"], tag="t")
    assert questions == []
    assert next(runs).id == "run0"
    assert len(questions) == 1
    assert [run.id for run in runs] == [f"run{number}" for number in range(1, 7)]
    assert len(questions) == 3
    assert {question["state"] for question in questions} == {"running,paused"}
    assert questions[0]["q"] == "lora" and "cursor" not in questions[0]


def test_list_with_a_limit_asks_for_no_more() -> None:
    client, questions = paged(num_runs=500, page=500)
    assert len(list(client.runs.list(limit=5))) == 5
    assert [question["limit"] for question in questions] == ["5"]


def test_field_that_a_list_leaves_out_is_asked_for() -> None:
    client, _ = paged(num_runs=1, page=1)
    listed = next(client.runs.list())
    run, seen = one(document())
    run.view = listed.view
    assert run.spec == {"model": {"path": "m"}}
    assert run.spec and len(seen) == 1


def test_fields_are_annotated_as_those_of_the_answer() -> None:
    annotated, answered = get_type_hints(Run), get_type_hints(RunDetail)
    assert annotated == {name: answered[name] for name in annotated}


def test_unknown_field_is_no_attribute() -> None:
    run, seen = one(document())
    with pytest.raises(AttributeError, match="lr"):
        _ = run.lr
    assert seen == []


def test_metrics_of_one_key_are_a_series_with_its_nan_and_infinities() -> None:
    answer = {
        "series": {"train/loss": {"x": [1, 2, 3], "y": [4.0, None, None]}},
        "nonfinite": {"train/loss": [[2, "nan"], [3, "-inf"]]},
    }
    run, seen = one(document(), answer)
    series = run.metrics("train/loss", first=1, max_points=50)
    assert dict(seen[0].url.params) == {"keys": "train/loss", "from": "1", "max_points": "50"}
    assert series.x == [1, 2, 3]
    assert series.y[0] == 4.0 and math.isnan(series.y[1]) and series.y[2] == -math.inf
    assert next(iter(series)) == (1, 4.0) and len(series) == 3 and series.last == -math.inf
    assert repr(series) == "<Series train/loss: 3 points, steps 1 to 3, last -inf>"


def test_metrics_of_several_keys_are_series_by_key_and_of_a_missing_one_is_empty() -> None:
    answer = {"series": {"a": {"x": [1], "y": [1.0]}, "b": {"x": [1], "y": [2.0]}}, "nonfinite": {}}
    run, _ = one(document(), answer)
    assert {key: series.last for key, series in run.metrics("a", "b").items()} == {"a": 1.0, "b": 2.0}
    assert (len(run.metrics("c")), run.metrics("c").last) == (0, None)


def test_set_sends_the_version_that_was_seen_and_refreshes() -> None:
    run, seen = one(document(knobs_version=4), {"knobs_version": 5, "changes": []}, document(step=8))
    assert run.set({"checkpoint.every": 9}, prefetch_window=5).knobs_version == 5
    assert seen[0].method == "PATCH" and seen[0].url.path.endswith("/knobs")
    assert seen[0].headers["If-Match"] == '"4"'
    assert json.loads(seen[0].content) == {"checkpoint.every": 9, "prefetch_window": 5}
    assert run.step == 8


@pytest.mark.parametrize(("asked", "number"), [((), None), ((4,), 4)])
def test_undo_takes_the_newest_change_or_a_named_one_back_where_nobody_changed_knobs_since(
    asked: tuple[int, ...], number: int | None
) -> None:
    run, seen = one(document(knobs_version=4), {"knobs_version": 5, "changes": []}, document(knobs_version=5))
    assert run.undo(*asked).knobs_version == 5
    assert (seen[0].method, seen[0].url.path.split("/runs/")[1].split("/")[1:]) == ("POST", ["knobs", "undo"])
    assert (json.loads(seen[0].content), seen[0].headers["If-Match"]) == ({"number": number}, '"4"')
    assert run.knobs_version == 5


@pytest.mark.parametrize(
    ("act", "path", "body"),
    [
        (lambda run: run.pause(save=True), "pause", {"save": True}),
        (lambda run: run.resume({"training.optimizer_steps": 9}), "resume", {"set": {"training.optimizer_steps": 9}}),
        (lambda run: run.stop(save=False), "stop", {"save": False}),
        (lambda run: run.checkpoint(), "checkpoint", None),
        (lambda run: run.start(), "start", None),
        (lambda run: run.hold(), "hold", None),
        (lambda run: run.move(2), "move", {"position": 2}),
        (lambda run: run.move(), "move", {"before": None}),
        (lambda run: run.archive(), "archive", None),
        (lambda run: run.unarchive(), "unarchive", None),
    ],
)
def test_act_posts_to_its_route_and_takes_the_new_state_over(act: Any, path: str, body: Any) -> None:
    run, seen = one(document(), document(state="stopping", reason="asked"))
    assert act(run) is run
    assert (seen[0].method, seen[0].url.path.rsplit("/", 1)[1]) == ("POST", path)
    assert (json.loads(seen[0].content) if seen[0].content else None) == body
    assert (run.state, run.reason) == ("stopping", "asked")


def test_clone_is_another_run_and_has_a_key() -> None:
    run, seen = one(document("a"), document("b"))
    other = run.clone({"training.seed": 1}, name="again")
    assert (run.id, other.id) == ("a", "b")
    assert json.loads(seen[0].content) == {"set": {"training.seed": 1}, "start": True, "name": "again"}
    assert seen[0].headers["Idempotency-Key"]


def test_export_writes_a_new_file_and_none_where_it_is_refused(tmp_path: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/export"):
            if request.url.params["format"] == "csv":
                return httpx.Response(200, text="step,train/loss\n1,4.0\n")
            return problem(422, "request-invalid", "format: csv, json or html")
        return httpx.Response(200, json=document())

    run = horizon(answer).runs.get("r")
    assert run.export(tmp_path / "run.csv").read_text() == "step,train/loss\n1,4.0\n"
    with pytest.raises(FileExistsError):
        run.export(tmp_path / "run.csv")
    with pytest.raises(Exception, match="csv, json or html"):
        run.export(tmp_path / "run.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.csv"]


def test_repr_is_one_line() -> None:
    run, _ = one(document())
    assert repr(run) == "<Run 20260131-120000-abcdef 'tiny': running, step 3/9, loss 2.5000>"


def test_table_of_a_notebook_escapes_names() -> None:
    run, _ = one(document(name="<script>alert(1)</script>", state="failed"))
    html = run._repr_html_()
    assert "&lt;script&gt;" in html and "<script" not in html
    assert "<table>" in html and "failed" in html and "3/9" in html


def log_answer(*seqs: int, scanned_to: int | None = None) -> dict[str, Any]:
    lines = [{"seq": seq, "time": "2026-01-31T12:00:00Z", "level": "info", "message": "disk"} for seq in seqs]
    return {"lines": lines, "scanned_to": scanned_to, "last_seq": 90_000}


@pytest.mark.parametrize(("after", "asked"), [(None, "before"), (0, "after")])
def test_search_in_a_long_log_goes_on_where_the_server_has_stopped_looking(after: int | None, asked: str) -> None:
    run, seen = one(document("r"), log_answer(70_001, scanned_to=70_000), log_answer(scanned_to=50_000), log_answer(7))
    lines = run.logs(after=after, q="disk")
    assert [line.seq for line in lines] == ([7, 70_001] if after is None else [70_001, 7])
    assert [request.url.params.get(asked) for request in seen][1:] == ["70000", "50000"]


def test_search_in_a_log_asks_for_no_more_once_it_has_enough() -> None:
    run, seen = one(document("r"), log_answer(8, 9, scanned_to=7))
    assert [line.seq for line in run.logs(q="disk", limit=2)] == [8, 9]
    assert len(seen) == 1
