"""`horizon runs list --q --sort`: filters and sorting from the command line, and what is said of wrong ones."""

import json
from pathlib import Path

import pytest

from horizon_app.contracts.run_state import RunState
from horizon_app.store.runs import update_run
from tests.support.commands import run_horizon
from tests.support.stores import add_run, open_store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_store(tmp_path) as database:
        for name, tag, eval_loss in (("sft", "lora", 1.5), ("sft-2", "lora", 0.5), ("base", "full", None)):
            run_id = add_run(database, RunState.FINISHED, name=name, tags=[tag], model_name="Qwen3-4B")
            with database.write() as tx:
                update_run(tx, run_id, loss=1.0, eval_loss=eval_loss, metrics={"eval/loss": eval_loss})
    return tmp_path


def test_list_takes_filters_and_sorts_by_a_metric(home: Path) -> None:
    asked = ("runs", "list", "--q", "loss < 2 and tag:lora and model:qwen", "--sort", "eval/loss", "--json")
    done = run_horizon(*asked, home=home)
    assert done.exit_code == 0, done.stderr
    assert [run["name"] for run in json.loads(done.stdout)["runs"]] == ["sft-2", "sft"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--q", "tag:lora loss < two"), "--q: column 17: a number was expected after loss <, found 'two'"),
        (("--q", "evl/loss"), None),
        (("--q", "evaluaton.every = 5"), "did you mean evaluation.every?"),
        (("--sort", "size"), "--sort: 'size' is no sort key"),
    ],
)
def test_list_with_a_wrong_question_ends_with_2_and_says_where(
    home: Path, asked: tuple[str, str], said: str | None
) -> None:
    done = run_horizon("runs", "list", *asked, home=home)
    assert done.exit_code == (0 if said is None else 2)
    assert said is None or said in done.stderr
