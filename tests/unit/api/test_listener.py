"""The socket that the server accepts on, and why it can't be had."""

import errno
import socket

import pytest

from horizon_app.api.listener import listen
from horizon_app.control.errors import CannotListen, PortTaken


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_port_0_takes_a_free_one(host: str) -> None:
    with listen(host, 0) as listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
        assert listener.family is socket.AF_INET


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_address_of_ipv6_is_listened_on_and_a_taken_port_of_it_is_told() -> None:
    with listen("::1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("::1", port)), pytest.raises(PortTaken, match=f"port {port} on ::1"):
            listen("::1", port)


@pytest.mark.parametrize(
    ("number", "port", "text"),
    [
        (errno.EACCES, 80, "ports below 1024 need root; choose a higher one with --port"),
        (errno.EACCES, 8321, "Permission denied"),
        (errno.EADDRNOTAVAIL, 8321, "no interface of this machine has that address"),
    ],
)
def test_address_that_can_not_be_bound_is_refused_with_the_cause(
    number: int, port: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(number, errno_text(number))

    monkeypatch.setattr("horizon_app.api.listener.socket.socket", Refusing)
    with pytest.raises(CannotListen, match=f"can't listen on 127.0.0.1, port {port}: {text}"):
        listen("127.0.0.1", port)


def errno_text(number: int) -> str:
    return {errno.EACCES: "Permission denied"}.get(number, "other words")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 300, "..", "256.1.1.1"])
def test_host_that_does_not_resolve_is_refused_by_name(host: str) -> None:
    with pytest.raises(CannotListen, match="can't resolve that name"):
        listen(host, 0)


def test_connections_send_short_answers_at_once() -> None:
    """With Nagle's algorithm the body of an answer waits for its head to be acknowledged, which takes 40 ms."""
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
