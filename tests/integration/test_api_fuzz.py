"""Whatever a client sends, within the schema or not: no answer is a 5xx, and every one is as the schema has it."""

from pathlib import Path

import pytest

from tests.support.fuzzing import fuzz


@pytest.mark.slow
def test_answers_to_requests_made_from_the_schema_keep_to_it(tmp_path: Path) -> None:
    found = fuzz(tmp_path, examples=2, phases="examples,fuzzing")
    print(found.summary)
    assert found.exit_code == 0, found.report
