"""`horizon serve`: the server and its pages, in the foreground."""

import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.refusals import CommandFailed, exit_codes, say
from horizon_app.cli.settings_option import HomeOption, make_settings

if TYPE_CHECKING:
    from horizon_app.settings import AppSettings

HostOption = Annotated[str | None, typer.Option("--host", help="Address to bind; 127.0.0.1 unless set.")]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="Port to bind; 8321 or the next free one unless set, 0 any free one."
    ),
]
OpenOption = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")]
ExampleOption = Annotated[
    bool, typer.Option("--example/--no-example", help="Write the starter example into the home folder and start it.")
]

PORTS_TRIED = 50


def serve(
    host: HostOption = None,
    port: PortOption = None,
    home: HomeOption = None,
    open_page: OpenOption = False,
    example: ExampleOption = False,
) -> None:
    """Start the server; the database is migrated first. Ctrl-C ends it and leaves training runs running."""
    with exit_codes():
        settings = make_settings(home=home, host=host, port=port)
        port_is_asked = "port" in settings.model_fields_set
        _serve_on_a_port(settings, port_is_asked=port_is_asked, open_page=open_page, example=example)
        _say_what_goes_on(settings)


def _serve_on_a_port(settings: "AppSettings", *, port_is_asked: bool, open_page: bool, example: bool) -> None:
    from horizon_app.api.serving import serve as serve_until_stopped
    from horizon_app.control.errors import PortTaken

    def ready(url: str) -> None:
        sys.stdout.write(f"Horizon is at {url}\n")
        sys.stdout.flush()
        # Beside the server's loop: a browser or an example that takes its time must not hold up an answer.
        if open_page:
            threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
        if example:
            threading.Thread(target=_start_example, args=(url, token), name="example", daemon=True).start()

    token = None if settings.token is None else settings.token.get_secret_value()

    def made(new: str) -> None:
        nonlocal token
        token = new
        sys.stdout.write(f"Access token, shown only now: {new}\n")

    for port in range(settings.port, settings.port + (1 if port_is_asked else PORTS_TRIED)):
        try:
            return serve_until_stopped(settings.model_copy(update={"port": port}), on_ready=ready, on_token=made)
        except PortTaken as taken:
            if port_is_asked:
                raise
            say(str(taken))
    raise CommandFailed(
        f"ports {settings.port} to {settings.port + PORTS_TRIED - 1} are all taken; choose one with --port"
    )


def _start_example(url: str, token: str | None) -> None:
    from horizon_app.cli.starter import start_example

    try:
        say(start_example(url, token))
    except CommandFailed as failed:
        say(str(failed))


def _say_what_goes_on(settings: "AppSettings") -> None:
    from horizon_app.contracts.run_state import LIVE
    from horizon_app.control.workstation import Workstation

    with Workstation(settings) as station:
        live = station.runs(state=sorted(LIVE)).runs
    for run in live:
        say(f"run {run.id} ({run.name}) goes on without the server; `horizon serve` shows it again")
