"""Settings of the app: arguments first, then the environment (HORIZON_*), then defaults. The only reader of both."""

import os
import re
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from horizon_app.logs import LogFormat, LogLevel


def _default_home() -> Path:
    return Path(platformdirs.user_data_dir("horizon", appauthor=False))


class AppSettings(BaseSettings):
    """Where things are and how the server behaves."""

    model_config = SettingsConfigDict(env_prefix="HORIZON_", frozen=True, extra="ignore", hide_input_in_errors=True)

    home: Path = Field(default_factory=_default_home, description="folder of the database, the runs, models and data")
    host: str = Field(default="127.0.0.1", description="address that the server binds")
    port: int = Field(default=8321, ge=0, le=65535, description="port that the server binds; 0 takes a free one")
    token: SecretStr | None = Field(
        default=None, description="token that the server asks for, and that the command line sends; it is not kept"
    )
    require_token: bool = Field(default=False, description="ask for the token on 127.0.0.1 too")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="names under which a reverse proxy offers this server, with commas between"
    )
    database_url: str | None = Field(default=None, description="SQLAlchemy URL in place of HOME/horizon.db")
    database_wait_s: float = Field(
        default=30.0, gt=0, description="seconds a write waits for others that hold the database"
    )
    folders: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(), description="folders beside the home folder that models and data may come from, as in PATH"
    )
    stop_grace_s: float = Field(
        default=10.0,
        ge=0,
        description="seconds a run has to stop, beside its step and the writing of its model, before a signal",
    )
    kill_grace_s: float = Field(default=3.0, ge=0, description="seconds between that signal and SIGKILL")
    orphan_pause_s: float = Field(
        default=86_400.0,
        ge=0,
        description="seconds that a paused run waits for a server before it saves a checkpoint and ends",
    )
    log_level: LogLevel = Field(
        default="info",
        description="least level that server and workers log; at debug every step's numbers are in the run's log too",
    )
    generator_idle_s: float = Field(
        default=300.0,
        gt=0,
        description="seconds without a question after which a checkpoint that answers leaves memory",
    )
    max_streams: int = Field(default=500, ge=1, description="WebSockets that the server serves at once")
    stream_ping_s: float = Field(
        default=20.0, gt=0, description="seconds between two pings of a WebSocket, and that an answer may take"
    )
    check_data: bool = Field(
        default=True, description="look at a run's data with the model's tokenizer before the run is accepted"
    )
    log_format: LogFormat = Field(default="human", description="log lines in words (human), or one JSON object each")
    worker_module: str = Field(
        default="horizon_app.worker", description="module that executes a run; tests put a worker without torch here"
    )

    @field_validator("folders", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(Path(part) for part in value.split(os.pathsep) if part)
        return value

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip().lower() for name in value.split(",") if name.strip())
        return value

    @field_validator("token")
    @classmethod
    def _fit_for_headers(cls, value: SecretStr | None) -> SecretStr | None:
        # These characters may stand in a header and in the name of a WebSocket's subprotocol.
        if value is not None and not re.fullmatch(r"[A-Za-z0-9._~+-]{16,256}", value.get_secret_value()):
            raise ValueError("a token has 16 to 256 letters, digits or any of . _ ~ + -")
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def runs_dir(self) -> Path:
        """Folder that holds one folder a run."""
        return self.home / "runs"

    @property
    def log_file(self) -> Path:
        """Where the server logs to, beside standard error."""
        return self.home / "logs" / "server.log"

    @property
    def database_path(self) -> Path:
        """The database file, used where `database_url` is not set."""
        return self.home / "horizon.db"
