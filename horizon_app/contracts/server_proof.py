"""How a server shows that it knows a token before it is sent the token: neither side says it.

The client names a number that it uses once; the server answers with a code made of that number and of the token's hash.
"""

import hashlib
import hmac
from functools import lru_cache

NONCE_PATTERN = "^[0-9a-f]{32}$"
NONCE_BYTES = 16
_ROUNDS = 100_000
"""Whoever asks for a proof may try words against it at home: each try is made to cost some hundredths of a second."""


def token_digest(token: str) -> bytes:
    """The hash of a token: what a server keeps of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def proof_of(digest: bytes, nonce: str) -> str:
    """The code that only somebody can tell who knows the token, or its hash."""
    return hmac.new(_stretched(digest), nonce.encode(), "sha256").hexdigest()


@lru_cache(maxsize=8)
def _stretched(digest: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", digest, b"horizon server proof", _ROUNDS)
