"""The runs of a server: submit, list, get."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from horizon_app.client.calls import Calls
from horizon_app.client.run import Run
from horizon_app.contracts.history_query import RunQuery

_PAGE = 100


class Runs:
    """The history and the live runs of one server. Every method raises HorizonError."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def create(self, spec: Mapping[str, Any], *, start: bool = True, key: str | None = None) -> Run:
        """Submit a run spec; `start` false keeps it out of the queue.

        `key` makes a call that is repeated with the same key give the same run; each call has one of its own anyway,
        so that an answer lost on the way is asked for again and never becomes a second run.
        """
        return Run(self._calls, self._calls.create(dict(spec), start=start, key=key))

    def get(self, run_id: str) -> Run:
        """One run by its id."""
        return Run(self._calls, self._calls.show(run_id))

    def list(
        self, q: str | None = None, *, state: str | Iterable[str] | None = None, tag: str | None = None,
        sort: str = "-created_at", limit: int | None = None,
    ) -> Iterator[Run]:  # fmt: skip
        """The runs that match, `limit` at most; pages are asked for as they are needed.

        `state` is one state or several of them.
        """
        states = state if state is None or isinstance(state, str) else ",".join(state)
        size = _PAGE if limit is None else max(1, min(limit, _PAGE))
        return islice(self._pages(RunQuery(q=q, state=states, tag=tag, sort=sort, limit=size)), limit)

    def __iter__(self) -> Iterator[Run]:
        return self.list()

    def _pages(self, query: RunQuery) -> Iterator[Run]:
        while True:
            page = self._calls.list(query)
            for view in page.runs:
                yield Run(self._calls, view)
            if page.next_cursor is None:
                return
            query = replace(query, cursor=page.next_cursor)
