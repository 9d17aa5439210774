"""Streams: each frame once and in order, whatever becomes of connections; against a real socket of a made-up server."""

import contextlib
import json
import threading
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from horizon_app.client import BadAnswer, Frames, Horizon, NotFound, RequestRefused, RunFailed, WaitTimeout
from tests.support.made_up_server import document, horizon, problem

Speak = Callable[[ServerConnection, int], None]


def log(seq: int) -> dict[str, Any]:
    return {"type": "log", "seq": seq, "time": "2026-01-31T12:00:00Z", "level": "info", "message": f"line {seq}"}


def state(seq: int, word: str) -> dict[str, Any]:
    return {"type": "state", "seq": seq, "time": "2026-01-31T12:00:00Z", "state": word, "reason": ""}


class Station:
    """A server that speaks as it is told: a part for each connection, and one state of the run for all questions."""

    def __init__(self, *parts: Speak, refuse: list[int] | None = None, **run: Any) -> None:
        self.run: dict[str, Any] = run
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.redirect = ""
        self.polled: list[dict[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self._parts = parts
        self._refuse = refuse or []
        self._spoken = 0

    @contextlib.contextmanager
    def open(self, **given: Any) -> Generator[Horizon]:
        """Serve; gives a client."""
        with serve(
            self._speak, "127.0.0.1", 0, process_request=self._door, compression=None,
            select_subprotocol=lambda _, offered: Subprotocol("horizon") if "horizon" in offered else None,
        ) as server:  # fmt: skip
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield horizon(self._answer, f"http://127.0.0.1:{server.socket.getsockname()[1]}", **given)
            finally:
                server.shutdown()
                thread.join()

    def _door(self, connection: ServerConnection, request: Request) -> Response | None:
        self.asked.append(request.path)
        self.tokens.append(request.headers.get("Authorization"))
        if self.redirect:
            answer = connection.respond(HTTPStatus.TEMPORARY_REDIRECT, "there\n")
            answer.headers["Location"] = self.redirect
            return answer
        if self._refuse:
            return connection.respond(HTTPStatus(self._refuse.pop(0)), "not now\n")
        return None

    def _speak(self, socket: ServerConnection) -> None:
        part = self._parts[self._spoken]
        self._spoken += 1
        part(socket, self._spoken)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            self.polled.append(dict(request.url.params))
            after = int(request.url.params["after"])
            events = [event for event in self.events if event["seq"] > after]
            return httpx.Response(200, json={"events": events, "last_seq": self.run["last_seq"]})
        if self.run.get("gone"):
            return problem(404, "run-not-found", "there is no run 'r'")
        return httpx.Response(200, json=document("r", **self.run))


def saying(*frames: dict[str, Any], then: Callable[[ServerConnection], None] | None = None) -> Speak:
    def speak(socket: ServerConnection, _number: int) -> None:
        with contextlib.suppress(ConnectionClosed):
            socket.recv(timeout=20)  # what the client asks for; unread, it would reset the connection at its end
        socket.send(b"HZRF")  # a residency frame is none of a text stream's
        for frame in frames:
            socket.send(json.dumps(frame))
        if then is not None:
            then(socket)
        else:
            with contextlib.suppress(ConnectionClosed):
                socket.recv(timeout=20)  # stays open until the client leaves

    return speak


def cut(socket: ServerConnection) -> None:
    """End a connection without a word, as a killed process does."""
    socket.socket.close()


def test_stream_cut_in_the_middle_goes_on_behind_the_last_frame_without_doubles() -> None:
    station = Station(
        saying(log(1), log(2), log(3), then=cut),
        saying(log(3), log(4), state(5, "finished")),
        state="running", last_seq=5,
    )  # fmt: skip
    with station.open() as client:
        frames = Frames(client.calls, "r", after=0)
        seen: list[int] = []
        for frame in frames:
            seen.append(frame.seq)
            if frame.seq == 4:
                station.run["state"] = "finished"
    assert seen == [1, 2, 3, 4, 5]
    assert station.asked == ["/api/v1/runs/r/stream?after=0", "/api/v1/runs/r/stream?after=3"]


def test_stream_ends_behind_the_last_frame_of_an_ended_run_and_not_at_an_earlier_end() -> None:
    history = [state(1, "finished"), state(2, "queued"), log(3), state(4, "stopped"), log(5)]
    with Station(saying(*history), state="stopped", last_seq=5).open() as client:
        assert [frame.seq for frame in client.runs.get("r").stream()] == [1, 2, 3, 4, 5]


def test_stream_of_an_ended_run_with_nothing_new_opens_no_connection() -> None:
    station = Station(state="finished", last_seq=5)
    with station.open() as client:
        assert list(client.runs.get("r").stream(after=5)) == []
    assert station.asked == []


def test_stream_from_now_begins_with_a_snapshot() -> None:
    snapshot = {"type": "snapshot", "seq": 7, "time": "2026-01-31T12:00:00Z", "run": document("r", state="finished")}
    with Station(saying(snapshot), state="finished", last_seq=7).open() as client:
        (frame,) = client.runs.get("r").stream(after=None)
    assert frame.type == "snapshot" and frame.run.name == "tiny"


async def test_stream_is_read_asynchronously_alike() -> None:
    with Station(saying(log(1), state(2, "finished")), state="finished", last_seq=2).open() as client:
        assert [frame.seq async for frame in client.runs.get("r").stream()] == [1, 2]


def test_stream_tries_again_where_the_door_is_closed_for_now() -> None:
    station = Station(saying(state(1, "finished")), refuse=[503], state="finished", last_seq=1)
    with station.open() as client:
        assert [frame.seq for frame in client.runs.get("r").stream()] == [1]
    assert len(station.asked) == 2


def test_stream_where_no_socket_gets_through_asks_for_the_same_events() -> None:
    station = Station(refuse=[400] * 9, state="finished", last_seq=3)
    station.events = [log(1), log(2), state(3, "finished")]
    with station.open() as client:
        assert [frame.seq for frame in client.runs.get("r").stream()] == [1, 2, 3]
    assert len(station.asked) == 1
    assert "metrics" in station.polled[0]["types"] and "log" in station.polled[0]["types"]


def test_stream_of_a_run_that_is_deleted_meanwhile_says_so() -> None:
    def delete(socket: ServerConnection) -> None:
        station.run["gone"] = True
        socket.close(4404, "no such run")

    station = Station(saying(log(1), then=delete), state="running", last_seq=1)
    with station.open() as client, pytest.raises(NotFound, match="there is no run 'r'"):
        list(client.runs.get("r").stream())


def test_stream_that_is_refused_for_its_question_says_why() -> None:
    station = Station(saying(then=lambda socket: socket.close(4422, "after is odd")), state="running", last_seq=1)
    with station.open() as client, pytest.raises(RequestRefused, match="after is odd"):
        list(client.runs.get("r").stream())


def test_stream_of_a_server_of_another_version_says_so() -> None:
    with (
        Station(saying({"type": "dream", "seq": 1}), state="running", last_seq=1).open() as client,
        pytest.raises(BadAnswer, match="another version"),
    ):
        list(client.runs.get("r").stream())


def test_stream_carries_the_token_as_a_header_and_not_in_the_address() -> None:
    station = Station(saying(state(1, "finished")), state="finished", last_seq=1)
    with station.open(token="s3cret") as client:
        list(client.runs.get("r").stream())
    assert station.tokens == ["Bearer s3cret"]
    assert "s3cret" not in station.asked[0]


def test_stream_that_is_sent_elsewhere_takes_the_token_to_nobody() -> None:
    other = Station(saying(state(1, "finished")), state="finished", last_seq=1)
    with other.open() as elsewhere:
        station = Station(state="finished", last_seq=1)
        station.events = [state(1, "finished")]
        station.redirect = f"{elsewhere.url.replace('http', 'ws')}/"
        with station.open(token="s3cret") as client:
            frames = list(client.runs.get("r").stream(after=0))
    assert [frame.seq for frame in frames] == [1]
    assert (station.tokens, other.tokens) == (["Bearer s3cret"], [None])


def test_stream_closed_from_another_thread_ends() -> None:
    with Station(saying(log(1)), state="running", last_seq=1).open() as client:
        frames = client.runs.get("r").stream()
        assert next(frames).seq == 1
        threading.Thread(target=frames.close).start()
        assert list(frames) == []


def test_wait_hands_over_what_happens_and_gives_the_ended_run() -> None:
    def end(socket: ServerConnection) -> None:
        station.run.update(state="failed", last_seq=9, reason="loss is NaN")
        socket.send(json.dumps(state(9, "failed")))
        with contextlib.suppress(ConnectionClosed):
            socket.recv(timeout=20)

    station = Station(saying(log(8), then=end), state="running", last_seq=7)
    seen: list[int] = []
    with station.open() as client:
        run = client.runs.get("r")
        assert run.wait(on_frame=lambda frame: seen.append(frame.seq)) is run
        assert (run.state, run.reason, seen) == ("failed", "loss is NaN", [8, 9])
        with pytest.raises(RunFailed, match="loss is NaN"):
            run.wait(check=True)
    assert station.asked == ["/api/v1/runs/r/stream?after=7"]


def test_wait_longer_than_allowed_is_a_timeout() -> None:
    with Station(saying(), state="running", last_seq=7).open() as client:
        run = client.runs.get("r")
        with pytest.raises(WaitTimeout, match="it goes on"):
            run.wait(timeout=0.2)
        with pytest.raises(TimeoutError):
            run.wait(timeout=0.0)
