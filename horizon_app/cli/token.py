"""`horizon token`: the token that a server asks for which others can reach."""

import sys

import typer

from horizon_app.cli.refusals import exit_codes, say
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

token_app = typer.Typer(no_args_is_help=True, help="The access token of servers that others can reach.")


@token_app.command("new")
def make_token(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Make a token in place of the one before, and print it: it can't be shown again."""
    from horizon_app.cli.runs import print_json
    from horizon_app.control.access import new_token, token_path

    with exit_codes():
        settings = make_settings(home=home)
        token = new_token(settings.home)
    if as_json:
        print_json({"token": token})
    else:
        sys.stdout.write(f"{token}\n")
    say(f"only its hash is kept, in {token_path(settings.home)}; a server that runs takes it from now on")
    if settings.token is not None:
        say("HORIZON_TOKEN is set: servers started with it go on asking for that one")


@token_app.command("remove")
def forget_token(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Forget the token: a server that needs one lets nobody in until there is another."""
    from horizon_app.cli.runs import print_json
    from horizon_app.control.access import remove_token

    with exit_codes():
        removed = remove_token(make_settings(home=home).home)
    if as_json:
        print_json({"removed": removed})
    else:
        sys.stdout.write("the token is removed\n" if removed else "there was no token\n")
