"""Calls: what is tried again and what never, and how a refusal reads."""

from collections.abc import Callable

import httpx
import pytest

from horizon_app.client import (
    BadAnswer,
    Conflict,
    HorizonError,
    NotFound,
    OutOfDate,
    RequestRefused,
    ServerFailed,
    ServerUnreachable,
    SpecRefused,
    Unauthorized,
)
from horizon_app.contracts import problems
from tests.support.made_up_server import document, horizon, problem
from tests.unit.client.conftest import Clock

Answer = Callable[[httpx.Request], httpx.Response]


def failing(times: int, error: type[httpx.TransportError], then: httpx.Response) -> tuple[Answer, list[httpx.Request]]:
    """A server that fails on the way a few times, and what it was asked."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) <= times:
            raise error("gone", request=request)
        return then

    return answer, seen


def answering(*answers: httpx.Response) -> tuple[Answer, list[httpx.Request]]:
    """A server that gives these answers in turn, and what it was asked."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answers[len(seen) - 1]

    return answer, seen


def test_reading_is_tried_again_after_a_lost_answer_with_growing_pauses(clock: Clock) -> None:
    answer, seen = failing(3, httpx.ReadError, httpx.Response(200, json=document()))
    assert horizon(answer).runs.get("r").name == "tiny"
    assert len(seen) == 4
    assert all(early < late for early, late in zip(clock.pauses, [0.11, 0.21, 0.41], strict=True))
    assert clock.pauses[2] >= 0.2


def test_creation_whose_answer_was_lost_is_repeated_with_the_same_key(clock: Clock) -> None:
    answer, seen = failing(2, httpx.RemoteProtocolError, httpx.Response(201, json=document()))
    horizon(answer).runs.create({"model": {"path": "m"}})
    keys = {request.headers["Idempotency-Key"] for request in seen}
    assert (len(seen), len(keys)) == (3, 1)
    assert len(keys.pop()) >= 32


def test_two_creations_have_two_keys() -> None:
    answer, seen = failing(0, httpx.ReadError, httpx.Response(201, json=document()))
    client = horizon(answer)
    client.runs.create({})
    client.runs.create({})
    assert seen[0].headers["Idempotency-Key"] != seen[1].headers["Idempotency-Key"]


@pytest.mark.parametrize("act", ["stop", "pause", "resume", "checkpoint", "delete"])
def test_act_whose_answer_was_lost_is_not_repeated_and_says_that_it_may_be_done(clock: Clock, act: str) -> None:
    answer, seen = failing(0, httpx.ReadError, httpx.Response(200, json=document()))
    run = horizon(answer).runs.get("r")

    broken, seen = failing(9, httpx.ReadError, httpx.Response(200, json=document()))
    run = type(run)(horizon(broken).calls, run.view)
    with pytest.raises(ServerUnreachable, match="may have done what was asked"):
        getattr(run, act)()
    assert (len(seen), clock.pauses) == (1, [])


def test_act_that_never_arrived_is_tried_again(clock: Clock) -> None:
    answer, seen = failing(2, httpx.ConnectError, httpx.Response(202, json=document(state="stopping")))
    assert horizon(answer).calls.stop("r").state == "stopping"
    assert len(seen) == 3


def test_server_that_never_comes_back_is_unreachable_after_the_given_time(clock: Clock) -> None:
    answer, _ = failing(10_000, httpx.ConnectError, httpx.Response(200))
    with pytest.raises(ServerUnreachable, match=r"no server answers at http://server .*horizon serve"):
        horizon(answer, retry_for=20.0).runs.get("r")
    assert 10.0 < sum(clock.pauses) <= 20.0
    assert max(clock.pauses) <= 5.0


def test_busy_server_is_asked_again_after_the_pause_that_it_names(clock: Clock) -> None:
    busy = problem(503, "database-busy", "the database is held")
    busy.headers["retry-after"] = "2"
    answer, seen = answering(busy, httpx.Response(200, json=document()))
    assert horizon(answer).runs.get("r").id == document()["id"]
    assert (len(seen), clock.pauses) == (2, [2.0])


def test_busy_server_is_not_asked_twice_to_act(clock: Clock) -> None:
    answer, seen = answering(problem(503, "database-busy", "the database is held"))
    with pytest.raises(ServerFailed, match="the database is held"):
        horizon(answer).calls.stop("r")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (401, "token-missing", Unauthorized),
        (403, "origin-refused", Unauthorized),
        (404, "run-not-found", NotFound),
        (409, "run-not-live", Conflict),
        (412, "knobs-changed", OutOfDate),
        (415, "not-json", RequestRefused),
        (422, "query-invalid", RequestRefused),
        (500, "internal-error", ServerFailed),
    ],
)
def test_problem_becomes_the_exception_of_its_kind_with_its_detail(
    status: int, name: str, kind: type[HorizonError]
) -> None:
    errors = [{"field": "sort", "message": "no such key"}]
    answer, _ = answering(problem(status, name, "what happened", errors=errors))
    with pytest.raises(HorizonError, match=r"^what happened$") as raised:
        horizon(answer).runs.get("r")
    assert type(raised.value) is kind
    assert raised.value.problem is not None and raised.value.problem.type == f"horizon:{name}"
    assert [error.field for error in raised.value.errors] == ["sort"]


def test_refused_spec_carries_a_problem_for_each_field() -> None:
    errors = [{"field": "data.path", "message": "is missing", "fix": "name a file"}, {"field": "b", "message": "bad"}]
    answer, _ = answering(problem(422, "spec-refused", "The spec can't run", errors=errors))
    with pytest.raises(SpecRefused, match=r"data\.path: is missing; b: bad") as raised:
        horizon(answer).runs.create({})
    assert isinstance(raised.value, HorizonError) and isinstance(raised.value, problems.SpecRefused)
    assert raised.value.errors[0].fix == "name a file"


@pytest.mark.parametrize(
    "strange",
    [
        httpx.Response(200, text="<html>welcome</html>"),
        httpx.Response(200, json={"id": 5}),
        httpx.Response(200, json=[]),
        httpx.Response(404, text="not here"),
        httpx.Response(301, headers={"location": "https://elsewhere/"}),
    ],
)
def test_answer_of_something_else_is_told_as_such(strange: httpx.Response) -> None:
    answer, _ = answering(strange)
    with pytest.raises(BadAnswer):
        horizon(answer).runs.get("r")


def test_token_goes_in_a_header_and_never_into_the_address_or_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORIZON_TOKEN", "s3cret")
    answer, seen = answering(problem(401, "token-wrong", "the token is not the server's"))
    client = horizon(answer)
    with pytest.raises(Unauthorized) as raised:
        client.runs.get("r")
    assert seen[0].headers["Authorization"] == "Bearer s3cret"
    assert seen[0].headers["Horizon-Client"] == "python client"
    assert "s3cret" not in f"{seen[0].url} {raised.value} {client!r}"


@pytest.mark.parametrize("url", ["127.0.0.1:8321", "ftp://x", "http://", "http://x:port", "http://x:99999"])
def test_address_that_is_none_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(HorizonError, match="no address of a server"):
        horizon(lambda request: httpx.Response(200), url)


def test_address_comes_from_the_environment_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORIZON_URL", "http://other:9000/")
    answer, seen = answering(httpx.Response(200, json=document()))
    horizon(answer, "").runs.get("a/../b")
    assert str(seen[0].url) == "http://other:9000/api/v1/runs/a%2F..%2Fb"
