"""A token goes to the server that knows it and to nobody else, however the port came to another program."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from horizon_app.client import BadAnswer, Horizon, OtherServer, ServerUnreachable
from horizon_app.contracts.server_proof import proof_of, token_digest
from tests.support.made_up_server import document
from tests.support.served import served

TOKEN = "a-token-of-the-user-0123456789"


class Answers(BaseHTTPRequestHandler):
    """A server that knows `server.knows`, and notes with which Authorization each path was asked for."""

    protocol_version = "HTTP/1.0"  # a connection for each answer, as after a restart
    server: Any

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.server.seen.append((address.path, self.headers.get("Authorization")))
        body: dict[str, Any] = document()
        if address.path.endswith("/healthz"):
            knows = self.server.knows
            (nonce,) = parse_qs(address.query)["nonce"]
            body = {"status": "ok", "version": "1", "proof": knows and proof_of(token_digest(knows), nonce)}
        content = b"<html>hello</html>" if self.server.is_web_page else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def answering(port: int = 0, *, knows: str | None = None, is_web_page: bool = False) -> Generator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", port), Answers)
    server.seen, server.knows, server.is_web_page = [], knows, is_web_page
    with served(server):
        yield server


def client_of(server: Any, **given: Any) -> Horizon:
    return Horizon(f"http://127.0.0.1:{server.server_port}", TOKEN, retry_for=0.0, **given)


def tokens(server: Any) -> set[str | None]:
    return {token for path, token in server.seen if not path.endswith("/healthz")}


def test_server_that_knows_the_token_is_sent_it_and_is_never_told_it_before() -> None:
    with answering(knows=TOKEN) as server, client_of(server) as client:
        client.runs.get("r")
    assert tokens(server) == {f"Bearer {TOKEN}"}
    assert {token for path, token in server.seen if path.endswith("/healthz")} == {None}


def test_server_that_asks_for_no_token_is_sent_none() -> None:
    with answering(knows=None) as server, client_of(server) as client:
        client.runs.get("r")
        client.runs.get("r")
    assert tokens(server) == {None}


@pytest.mark.parametrize("stranger", [{"knows": "another-token-0123456789"}, {"knows": None}, {"is_web_page": True}])
def test_program_that_took_the_port_of_a_server_is_sent_nothing_and_told_of(stranger: dict[str, Any]) -> None:
    with answering(knows=TOKEN) as server, client_of(server) as client:
        port = server.server_port
        client.runs.get("r")
        server.shutdown()
        server.server_close()
        with answering(port, **stranger) as other, pytest.raises(OtherServer, match="does not know this access token"):
            client.runs.get("r")
    assert tokens(other) == set() and len(other.seen) == 1


def test_stream_goes_on_at_no_program_that_took_the_port_of_its_server() -> None:
    with answering(knows=TOKEN) as server, client_of(server) as client:
        port, run = server.server_port, client.runs.get("r")
        server.shutdown()
        server.server_close()
        with answering(port, knows="another-token-0123456789") as other, pytest.raises(OtherServer):
            next(run.stream())
    assert tokens(other) == set()


def test_port_that_nobody_has_is_told_as_such() -> None:
    with answering(knows=TOKEN) as server:
        client = client_of(server)
    with client, pytest.raises(ServerUnreachable, match="no server answers"):
        client.runs.get("r")


def test_web_page_at_the_address_gets_no_token_at_first_contact() -> None:
    with answering(is_web_page=True) as server, client_of(server) as client, pytest.raises((OtherServer, BadAnswer)):
        client.runs.get("r")
    assert tokens(server) == set()
