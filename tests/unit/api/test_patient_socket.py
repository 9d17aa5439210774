"""What is wrapped once for many viewers is what a WebSocket client reads."""

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from horizon_app.api.patient_socket import wrap


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_wrapped_messages_one_behind_the_other_are_read_as_they_were(length: int) -> None:
    text, content = "\u00e9" * length, bytes(range(256)) * (length // 256 + 1)
    client = ClientProtocol(parse_uri("ws://server/"), state=State.OPEN)
    client.receive_data(wrap(text) + wrap(content))
    assert client.events_received() == [Frame(Opcode.TEXT, text.encode()), Frame(Opcode.BINARY, content)]
