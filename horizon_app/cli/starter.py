"""The starter example of `horizon serve --example`, asked for over the server's own API."""

from horizon_app.cli.refusals import CommandFailed
from horizon_app.client import Horizon, HorizonError
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.contracts.run_state import LIVE, RunState


def start_example(url: str, token: str | None = None) -> str:
    """Write the example where it is missing and run it, unless a run is live or waits; says what was done."""
    # A process of its own trains the starter model's tokenizer, which takes seconds.
    with Horizon(url, token=token, name=COMMAND_LINE, timeout=300.0) as horizon:
        try:
            counts = horizon.call("GET", "/runs", params={"limit": 1})["counts"]
            busy = [state.value for state in (*LIVE, RunState.QUEUED) if counts.get(state.value)]
            if busy:
                return f"the example is not started: a run is {busy[0]}"
            spec = horizon.call("POST", "/examples", repeatable=True)["spec"]
            return f"the example runs as {horizon.runs.create(spec).id}"
        except HorizonError as error:
            raise CommandFailed(f"the example could not be started: {error}") from error
