"""The Python client against a real server that dies, comes back and loses answers; its workers are scripted ones."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from horizon_app.client import Conflict, Horizon, NotFound, RequestRefused, SpecRefused, Unauthorized
from tests.support.commands import ROOT
from tests.support.server import ServerProcess, furnish_home, scripted_spec


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that comes back at the same port."""
    with ServerProcess(furnish_home(tmp_path / "home"), HORIZON_PORT=str(free_port())) as process:
        yield process


class LosesAnswers(httpx.BaseTransport):
    """A network that carries every question, and drops the first answer to a POST."""

    def __init__(self) -> None:
        self._through = httpx.HTTPTransport()
        self.posts = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._through.handle_request(request)
        if request.method == "POST":
            self.posts += 1
            if self.posts == 1:
                answer.read()
                raise httpx.ReadError("the connection was reset", request=request)
        return answer

    def close(self) -> None:
        self._through.close()


def test_wait_and_stream_outlive_a_killed_server_with_each_frame_once_in_order(server: ServerProcess) -> None:
    with Horizon(server.url) as horizon, ThreadPoolExecutor() as threads:
        run = horizon.runs.create(scripted_spec(60, step_s=0.05))
        frames = threads.submit(lambda: [frame.seq for frame in run.stream()])
        waited = threads.submit(lambda: horizon.runs.get(run.id).wait(timeout=60.0))
        server.wait_step(run.id, 5)
        server.end(signal.SIGKILL)
        server.start()
        server.wait_step(run.id, 20)
        server.end(signal.SIGKILL)
        server.start()
        assert waited.result(timeout=60).state == "finished"
        assert frames.result(timeout=60) == list(range(1, run.refresh().last_seq + 1))
        assert run.metrics("train/loss").x == list(range(1, 61))
        assert run.metrics("train/loss").last == pytest.approx(4.0 / 60)


def test_creation_whose_answer_was_lost_is_one_run(server: ServerProcess) -> None:
    network = LosesAnswers()
    with Horizon(server.url, http=network) as horizon:
        run = horizon.runs.create(scripted_spec(1), start=False)
        assert network.posts == 2
        assert list(horizon.runs.list()) == [run]


def test_acts_and_refusals_of_a_real_server(server: ServerProcess, tmp_path: Path) -> None:
    with Horizon(server.url) as horizon:
        with pytest.raises(NotFound, match="there is no run"):
            horizon.runs.get("20260131-120000-abcdef")
        with pytest.raises(SpecRefused, match=r"model\.path"):
            horizon.runs.create({"model": {"path": "nowhere"}, "data": {"path": "data/corpus.txt"}})
        run = horizon.runs.create(scripted_spec(10_000, step_s=0.02))
        server.wait_step(run.id, 2)
        assert [live.id for live in horizon.queue().devices[0].live] == [run.id]
        assert run.set(prefetch_window=5).changes[0].new == 5
        assert run.undo().changes[0].old == 5
        with pytest.raises(Conflict, match="no change"):
            run.undo()
        with pytest.raises(Conflict, match="stop it first"):
            run.delete()
        assert run.stop().wait(timeout=30.0).state == "stopped"
        assert [line.message for line in run.logs()] == ["hello"]
        assert horizon.queue().devices == []
        assert run.events()[-1].type == "state"
        assert run.edit(name="renamed").name == "renamed"
        copy = run.clone({"training.optimizer_steps": 3}, name="again")
        assert copy.wait(timeout=30.0, check=True).step == 3
        assert [one.name for one in horizon.runs.list(state=["finished", "stopped"])] == ["again", "renamed"]
        compared = horizon.compare(run, copy.id, keys=["train/loss"])
        assert compared.series["train/loss"][copy.id].step == [1, 2, 3]
        assert [one.key for one in compared.differences] == ["training.optimizer_steps"]
        with pytest.raises(RequestRefused, match="tokens"):
            horizon.compare(run, copy, axis="weeks")
        assert copy.archive().archived_at is not None
        assert copy.delete() > 0
        assert horizon.system().active_run is None
        assert horizon.models().models[0].name == "tiny"
        assert horizon.datasets().datasets[0].name == "corpus.txt"


def test_stream_and_calls_carry_the_token_that_a_server_asks_for(tmp_path: Path) -> None:
    token = "a-token-of-this-test"
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home, HORIZON_TOKEN=token, HORIZON_REQUIRE_TOKEN="true") as server:
        with Horizon(server.url) as stranger, pytest.raises(Unauthorized, match="token"):
            next(stranger.runs.list())
        with Horizon(server.url, token=token) as horizon:
            run = horizon.runs.create(scripted_spec(3))
            frames = [frame.seq for frame in run.stream()]
            assert frames == list(range(1, run.refresh().last_seq + 1))


def test_example_of_the_readme_runs_as_it_is_written(server: ServerProcess) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Python client\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "HORIZON_URL": server.url},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:20]] == [str(step) for step in range(1, 21)]
    assert lines[20].endswith("finished, step 20/20, loss 0.2000> 20 0.2")
    assert lines[21].startswith("tiny 20 {")


def test_script_that_leaves_a_stream_open_ends(server: ServerProcess) -> None:
    run_id = server.submit(10_000, step_s=0.02)
    script = (
        "import sys; from horizon_app.client import Horizon\n"
        "frames = Horizon(sys.argv[1]).runs.get(sys.argv[2]).stream()\n"
        "print(next(frames).seq)\n"
    )
    command = [sys.executable, "-c", script, server.url, run_id]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    server.post(f"/runs/{run_id}/stop")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
