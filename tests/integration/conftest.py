"""What is made once for all of these tests."""

import pytest

from tests.support.trained_home import TrainedHome, train_home


@pytest.fixture(scope="session")
def trained_home(tmp_path_factory: pytest.TempPathFactory) -> TrainedHome:
    """A home with a finished run of a tiny model that knows its facts. Nobody changes it."""
    return train_home(tmp_path_factory.mktemp("trained-home"))
