"""What a shell completes: ids of runs, states, knobs, keys of the spec. Never an error, never a trace."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from horizon_app.cli.printable import printable_line
from horizon_app.cli.settings_option import make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.run_view import RunPage
    from horizon_app.settings import AppSettings

_NEWEST = 50


def complete_run(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest runs, each with its name and state."""
    with suppress(Exception):  # nobody who presses a key wants to read what is wrong with a home folder
        page = _newest(make_settings(home=context.params.get("home")))
        told = [(run.id, printable_line(f"{run.name}, {run.state.value}")) for run in page.runs]
        return [(run_id, help_text) for run_id, help_text in told if run_id.startswith(incomplete)]
    return []


def complete_state(incomplete: str) -> list[str]:
    """The states of runs."""
    from horizon_app.contracts.run_state import RunState

    return [state.value for state in RunState if state.value.startswith(incomplete)]


def complete_knob(incomplete: str) -> list[str]:
    """Knobs, with the sign that their value follows."""
    from horizon_app.contracts.knobs import Knob

    return [f"{knob.value}=" for knob in Knob if f"{knob.value}=".startswith(incomplete)]


def complete_spec_value(incomplete: str) -> list[str]:
    """Keys of the run spec, and behind a key that has words to choose from its words."""
    from horizon_app.contracts.run_spec import spec_schema

    schema = spec_schema()
    return [text for text in _assignments(schema, schema, "", incomplete) if text.startswith(incomplete)]


def _assignments(schema: dict[str, Any], node: dict[str, Any], prefix: str, incomplete: str) -> Iterator[str]:
    for key, child in node["properties"].items():
        inner = schema["$defs"][child["$ref"].rsplit("/", 1)[1]] | child if "$ref" in child else child
        path = f"{prefix}{key}"
        if "properties" in inner:
            yield from _assignments(schema, inner, f"{path}.", incomplete)
        elif incomplete.startswith(f"{path}="):
            refused = inner.get("x-unavailable", [])
            yield from (f"{path}={word}" for word in inner.get("enum", []) if word not in refused)
        else:
            yield f"{path}="


def _newest(settings: "AppSettings") -> "RunPage":
    if settings.database_url is None and not settings.database_path.exists():
        raise FileNotFoundError(settings.database_path)  # a look must not make a home folder
    from horizon_app.control.history import History
    from horizon_app.store.database import open_database

    database = open_database(settings)
    try:
        return History(database, settings).runs(limit=_NEWEST)
    finally:
        database.close()
