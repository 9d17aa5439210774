"""The starter example of `horizon serve --example`, asked for over the server's own API."""

from typing import Any

import httpx

from horizon_app.cli.refusals import CommandFailed
from horizon_app.contracts.run_state import LIVE, RunState


def start_example(url: str, token: str | None = None) -> str:
    """Write the example where it is missing and run it, unless a run is live or waits; says what was done."""
    # Writing the starter model imports torch in a process of its own, which takes seconds.
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", timeout=300.0, headers=headers) as client:
        counts = _call(client, "GET", "/runs", params={"limit": 1})["counts"]
        busy = [state.value for state in (*LIVE, RunState.QUEUED) if counts.get(state.value)]
        if busy:
            return f"the example is not started: a run is {busy[0]}"
        spec = _call(client, "POST", "/examples")["spec"]
        run = _call(client, "POST", "/runs", json={"spec": spec, "start": True})
        return f"the example runs as {run['id']}"


def _call(client: httpx.Client, method: str, path: str, **request: Any) -> dict[str, Any]:
    try:
        answer = client.request(method, path, **request)
        answer.raise_for_status()
        return answer.json()
    except httpx.HTTPStatusError as error:
        raise CommandFailed(f"the example could not be started: {error.response.text[:300]}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise CommandFailed(f"the example could not be started: {error}") from error
