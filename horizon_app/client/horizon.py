"""The client's front door: one server."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from horizon_app.client.calls import Calls, read_as
from horizon_app.client.run import Run
from horizon_app.client.runs import Runs
from horizon_app.client.transport import Transport
from horizon_app.contracts.comparison import Axis, Comparison
from horizon_app.contracts.history_query import CompareQuery
from horizon_app.contracts.machine_view import DatasetsAnswer, ModelsAnswer, SystemAnswer
from horizon_app.contracts.run_view import QueueAnswer


class Horizon:
    """A Horizon server. Close it, or use it in a `with` statement, when you are done."""

    def __init__(
        self, url: str | None = None, token: str | None = None, timeout: float = 30.0, *, retry_for: float = 15.0,
        name: str = "python client", http: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        """`url` is HORIZON_URL where it is left out, else http://127.0.0.1:8321; `token` is HORIZON_TOKEN.

        `timeout` is how many seconds an answer may take, `retry_for` for how many seconds a call that may be repeated
        safely is tried again while no server answers. Raises HorizonError where the address is none.
        """
        self._transport = Transport(url, token, timeout_s=timeout, retry_for_s=retry_for, name=name, http=http)
        self.calls = Calls(self._transport)
        """Every call about runs as plain views, without objects around them."""
        self.runs = Runs(self.calls)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.url

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The decoded answer of any route below /api/v1, with `params`, `json`, `headers`. Raises HorizonError."""
        return self._transport.call(method, path, **request)

    def compare(
        self, *runs: Run | str, keys: Sequence[str] | None = None, axis: str = Axis.STEP, max_points: int = 500
    ) -> Comparison:
        """Runs (or their ids) side by side: curves over `axis` (step, tokens or seconds) and where their specs differ.

        `keys` are the metrics that are compared, all where left out. Raises HorizonError.
        """
        ids = [run if isinstance(run, str) else run.id for run in runs]
        return self.calls.compare(ids, CompareQuery(keys=keys, max_points=max_points, axis=axis))

    def queue(self) -> QueueAnswer:
        """What each device does and what waits for it, in order. Raises HorizonError."""
        return self.calls.queue()

    def system(self) -> SystemAnswer:
        """What the machine has and what it uses now."""
        return read_as(SystemAnswer, self.call("GET", "/system"))

    def models(self) -> ModelsAnswer:
        """The models in the server's folders."""
        return read_as(ModelsAnswer, self.call("GET", "/models"))

    def datasets(self) -> DatasetsAnswer:
        """The data files in the server's folders."""
        return read_as(DatasetsAnswer, self.call("GET", "/datasets"))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Horizon {self.url}>"
