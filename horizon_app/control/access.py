"""Who may use a server that others can reach: whoever knows its token. Only the token's hash is kept."""

import hmac
import ipaddress
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

from horizon_app.contracts.server_proof import proof_of, token_digest
from horizon_app.settings import AppSettings

_TOKEN_BYTES = 32


def token_is_needed(settings: AppSettings) -> bool:
    """Whether a server with these settings asks for a token: always, unless only this machine reaches it."""
    return settings.require_token or settings.token is not None or not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    """Whether a server that binds this address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_path(home: Path) -> Path:
    """The file that holds the hash of a home folder's token."""
    return home / "token.json"


def new_token(home: Path) -> str:
    """Make a token, keep its hash in place of the one before, and give it: it can't be read again. Raises OSError."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    home.mkdir(parents=True, exist_ok=True)
    partial = home / ".token.json.partial"
    partial.unlink(missing_ok=True)
    # A plain hash will do: nobody can try out 256 random bits.
    content = {"sha256": token_digest(token).hex(), "created_at": datetime.now(UTC).isoformat(timespec="seconds")}
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(token_path(home))
    return token


def remove_token(home: Path) -> bool:
    """Forget the token; whether there was one. Raises OSError."""
    try:
        token_path(home).unlink()
    except FileNotFoundError:
        return False
    return True


def make_missing_token(settings: AppSettings) -> str | None:
    """The token of a server that needs one and has none yet, made now; None where nothing had to be made."""
    if not token_is_needed(settings) or settings.token is not None or token_path(settings.home).exists():
        return None
    return new_token(settings.home)


class Access:
    """Tells whether a token is the right one, also after it was replaced by another process."""

    def __init__(self, settings: AppSettings) -> None:
        self.needs_token = token_is_needed(settings)
        self._given = None if settings.token is None else token_digest(settings.token.get_secret_value())
        self._path = token_path(settings.home)
        self._seen: tuple[int, int] | None = None
        self._kept: bytes | None = None

    def admits(self, token: str) -> bool:
        """Whether this is the token; always false where none is set."""
        wanted = self._given or self._stored()
        return wanted is not None and hmac.compare_digest(token_digest(token), wanted)

    def proof(self, nonce: str) -> str | None:
        """What shows a client that this server knows its token; None where it asks for none, or has none yet."""
        known = (self._given or self._stored()) if self.needs_token else None
        return None if known is None else proof_of(known, nonce)

    def _stored(self) -> bytes | None:
        try:
            status = self._path.stat()
            if self._seen != (status.st_ino, status.st_mtime_ns):
                self._kept = bytes.fromhex(json.loads(self._path.read_bytes())["sha256"])
                self._seen = (status.st_ino, status.st_mtime_ns)
        except (OSError, ValueError, KeyError, TypeError):
            self._kept, self._seen = None, None
        return self._kept
