"""What every test gets: a home of its own and no model hub; browser tests come last, GPU tests only with a card."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

# How long an example takes tells of the machine, not of the code; and what fails once has to fail again.
settings.register_profile(
    "horizon", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("horizon")

# Read by transformers and huggingface_hub at import, so set before any test module is imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Read by OpenMP when torch is loaded: as in a worker, compute threads sleep while they wait.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# The look at data takes seconds, and most tests have models whose tokenizer is a name only. Its own tests turn it on.
# Here too, for fixtures of a module or a session, which come before those of a test.
os.environ["HORIZON_CHECK_DATA"] = "false"


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh home folder, so that no test sees or changes the user's; also for the processes that a test starts."""
    for name in [name for name in os.environ if name.startswith("HORIZON_")]:
        monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HORIZON_HOME", str(home))
    monkeypatch.setenv("HORIZON_CHECK_DATA", "false")
    return home


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server for the whole session; skips where none is installed, which in CI is a failure."""
    from tests.support.postgres import PostgresServer, need_programs

    with PostgresServer(need_programs()) as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def any_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """Makes a test run on each kind of database: `open_store` opens that kind."""
    if request.param == "sqlite":
        yield request.param
        return
    from tests.support.stores import PostgresDatabases

    with PostgresDatabases(request.getfixturevalue("postgres")):
        yield request.param


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a card where there is none, and put the browser tests last.

    Playwright's synchronous interface keeps an event loop running in the main thread until the session ends, in which
    pytest-asyncio can't start its own: no asynchronous test may come after a browser test.
    """
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)
    on_card = [item for item in items if item.get_closest_marker("gpu")]
    if on_card and not _has_card():
        for item in on_card:
            item.add_marker(pytest.mark.skip(reason="no CUDA card"))


def _has_card() -> bool:
    import torch

    return torch.cuda.is_available()
