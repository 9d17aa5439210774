"""What is made once for all of these tests."""

from collections.abc import Callable

import pytest

from tests.support.trained_home import TrainedHome, train_home


@pytest.fixture(scope="session")
def trained_home(tmp_path_factory: pytest.TempPathFactory) -> TrainedHome:
    """A home with a finished run of a tiny model that knows its facts. Nobody changes it."""
    return train_home(tmp_path_factory.mktemp("trained-home"))


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_setting(request: pytest.FixtureRequest) -> Callable[[], dict[str, str]]:
    """What a server is told of a new database of its own; each module that uses it runs on each kind."""
    if request.param == "sqlite":
        return dict[str, str]
    server = request.getfixturevalue("postgres")
    return lambda: {"HORIZON_DATABASE_URL": server.new_database()}
