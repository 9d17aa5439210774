"""How tests of models that people bring look at them: through the command line, through the server, in an engine."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient
from transformers import AutoTokenizer
from typer.testing import CliRunner

from horizon_app.api.app import create_app
from horizon_app.cli.main import app
from horizon_app.data.batches import IGNORE, Batch
from horizon_app.settings import AppSettings

INPUTS = Path(__file__).parents[1] / "cases" / "inputs"


def inspected(folder: Path) -> dict[str, Any]:
    """What `horizon model inspect --json` says."""
    done = CliRunner().invoke(app, ["model", "inspect", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def why_not(folder: Path) -> str:
    """Why `horizon model inspect` says that the model can't be trained; empty where it can."""
    found = inspected(folder)
    assert found["trainable"] == (not found["obstacles"])
    return "; ".join(found["obstacles"])


class ModelServer:
    """The server in this process, with the inputs of the cases as an allowed folder."""

    def __init__(self, client: TestClient, data: Path) -> None:
        self.client, self._data = client, data

    def refusal(self, folder: Path, **sections: Any) -> str:
        """Every message of the problem document that a spec with this model gets; empty where it is accepted."""
        spec = {"model": {"path": str(folder)}, "data": {"path": str(self._data)}, **sections}
        answer = self.client.post("/api/v1/runs", json={"spec": spec, "start": False})
        if answer.status_code == 201:
            return ""
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        return "; ".join(f"{error['field']}: {error['message']}" for error in answer.json()["errors"])

    def listed(self, folder: Path) -> dict[str, Any]:
        """The folder's entry in GET /models."""
        answer = self.client.get("/api/v1/models")
        assert answer.status_code == 200, answer.text
        return next(model for model in answer.json()["models"] if model["path"] == str(folder))


@contextmanager
def model_server(home: Path, inputs: Path = INPUTS) -> Generator[ModelServer]:
    """A server whose home holds one text."""
    (home / "data").mkdir(parents=True)
    text = home / "data" / "corpus.txt"
    text.write_text("once upon a time\n" * 10)
    made = create_app(AppSettings(home=home, folders=(inputs,)))
    with TestClient(made, base_url="http://127.0.0.1:8321", raise_server_exceptions=False) as client:
        yield ModelServer(client, text)


class OneRow:
    """The same row in every step: a prompt that is read, a completion that is trained."""

    def __init__(self, model: Path, prompt: str, completion: str) -> None:
        tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
        asked, trained = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, completion))
        self.ids = np.array([asked + trained])
        labels = np.array([[IGNORE] * len(asked) + trained])
        self.batch = Batch(
            input_ids=self.ids, labels=labels, position_ids=np.arange(self.ids.shape[1])[None], num_samples=1
        )  # fmt: skip

    def batches(self, first_step: int) -> Iterator[Batch]:
        """The row, without end."""
        while True:
            yield self.batch
