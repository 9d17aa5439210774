"""What a server as a whole answers: runs side by side, the queues of its devices."""

from typing import Any

import httpx

from horizon_app.contracts.run_view import RunDetail
from tests.support.made_up_server import document, horizon

COMPARISON = {
    "runs": [], "axis": "tokens", "series": {"train/loss": {"a": {"step": [1], "x": [64.0], "y": [4.0]}}},
    "nonfinite": {}, "differences": [{"key": "training.seed", "values": {"a": 0, "b": 1}}],
}  # fmt: skip


def test_compare_takes_runs_and_ids_and_gives_curves_and_differences() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=COMPARISON if request.url.path.endswith("/compare") else document("b"))

    client = horizon(answer)
    found = client.compare("a", client.runs.get("b"), keys=["train/loss"], axis="tokens", max_points=9)
    assert dict(seen[-1].url.params) == {"ids": "a,b", "keys": "train/loss", "x": "tokens", "max_points": "9"}
    assert found.series["train/loss"]["a"].y == [4.0]
    assert found.differences[0].values == {"a": 0, "b": 1}


def test_queue_gives_each_device_with_what_it_does_and_what_waits() -> None:
    def view(run_id: str, **changes: Any) -> dict[str, Any]:
        return RunDetail.model_validate(document(run_id, **changes)).model_dump(mode="json")

    device = {"device": "cpu", "live": [view("a")], "queued": [view("b", state="queued", queue_position=1)]}
    (found,) = horizon(lambda _: httpx.Response(200, json={"devices": [device]})).queue().devices
    assert (found.device, [run.id for run in found.live], found.queued[0].queue_position) == ("cpu", ["a"], 1)
