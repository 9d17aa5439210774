"""The listening socket of the server."""

import socket

from horizon_app.api import serving


def test_connections_send_short_answers_at_once() -> None:
    """With Nagle's algorithm the body of an answer waits for its head to be acknowledged, which takes 40 ms."""
    with serving._listen("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
