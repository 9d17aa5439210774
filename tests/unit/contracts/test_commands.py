"""Commands as they stand in a run's folder: one JSON object a line."""

import pytest
from pydantic import ValidationError

from horizon_app.contracts.commands import COMMAND, SetKnobs, StopRun
from horizon_app.contracts.spec_words import Policy


@pytest.mark.parametrize(
    "command",
    [
        StopRun(save=False), SetKnobs(prefetch_window="auto"), SetKnobs(prefetch_window=0, max_gpu_blocks=7),
        SetKnobs(policy=Policy.LRU),
    ],
)  # fmt: skip
def test_command_survives_its_line(command: StopRun | SetKnobs) -> None:
    assert COMMAND.validate_json(command.model_dump_json()) == command


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "set"}', '{"type": "set", "prefetch_window": 65}', '{"type": "set", "max_gpu_blocks": 0}',
        '{"type": "set", "policy": "fifo"}', '{"type": "set", "host_memory": 1}', '{"type": "pause"}',
    ],
)  # fmt: skip
def test_command_that_asks_for_nothing_that_can_be_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        COMMAND.validate_json(line)
