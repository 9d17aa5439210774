"""Asks what answers at an address to show that it knows the token, before it is sent the token.

A server that ends gives its port back, and another program may take it: it must not be handed what opens the server.
"""

import hmac
import secrets
from typing import Any

import httpx
from pydantic import ValidationError

from horizon_app.client.errors import OtherServer, error_of
from horizon_app.contracts.machine_view import Health
from horizon_app.contracts.server_proof import NONCE_BYTES, proof_of, token_digest


class Introduction:
    """One server, and the token that it has to know."""

    def __init__(self, token: str, url: str, **options: Any) -> None:
        """`options` are those of the httpx client that asks."""
        self._digest = token_digest(token)
        self._url = url
        # Each question has a connection of its own: whoever answered before need not be there any more.
        self._http = httpx.Client(base_url=f"{url}/api/v1", limits=httpx.Limits(max_keepalive_connections=0), **options)
        self._was_proven = False

    def token_is_wanted(self) -> bool:
        """Whether the token may be sent; false where the server asks for none and never has.

        Raises OtherServer where it does not know the token, httpx.ConnectError where nobody answers, HorizonError.
        """
        nonce = secrets.token_hex(NONCE_BYTES)
        try:
            answer = self._http.get("/healthz", params={"nonce": nonce})
        except httpx.TransportError as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error  # nothing was asked of it yet
        if answer.is_server_error:  # of a proxy, while the server starts again
            raise httpx.ConnectError(f"{answer.status_code} {answer.reason_phrase}")
        if not answer.is_success:
            raise error_of(answer)
        proof = _proof_in(answer)
        if proof is not None and hmac.compare_digest(proof, proof_of(self._digest, nonce)):
            self._was_proven = True
            return True
        if proof is None and not self._was_proven:
            return False
        raise OtherServer(
            f"what answers at {self._url} does not know this access token, so it was not sent there: the server has "
            "another token, or another program has taken its port; look whether `horizon serve` runs there, and give "
            "the token that it printed (`horizon token new` on its machine makes another)"
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _proof_in(answer: httpx.Response) -> str | None:
    try:
        return Health.model_validate_json(answer.content).proof
    except ValidationError:
        return ""
