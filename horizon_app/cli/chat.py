"""`horizon chat RUN_ID`: talk to a model that a run has saved."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from horizon_app.cli.printable import printable
from horizon_app.cli.refusals import CommandFailed, exit_codes, say
from horizon_app.cli.runs import RunArgument, print_json
from horizon_app.cli.settings_option import HomeOption, JsonOption, make_settings

if TYPE_CHECKING:
    from horizon_app.contracts.generation import ChatMessage, TextAsked, TextDone
    from horizon_app.control.generators import GeneratorProcess
    from horizon_app.control.run_models import SavedModel

CheckpointOption = Annotated[int | None, typer.Option("--checkpoint", metavar="STEP", help="The newest unless set.")]
MessageOption = Annotated[str | None, typer.Option("--message", "-m", help="Ask this and end.")]
SystemOption = Annotated[str | None, typer.Option("--system", help="What the model is told before the conversation.")]
LengthOption = Annotated[int, typer.Option("--max-new-tokens", min=1, max=32_768, help="Most tokens of an answer.")]
TemperatureOption = Annotated[
    float, typer.Option("--temperature", min=0.0, max=10.0, help="0 takes the likeliest token each time.")
]
TopPOption = Annotated[
    float, typer.Option("--top-p", min=1e-6, max=1.0, help="Draw from the likeliest with this probability together.")
]
TopKOption = Annotated[int, typer.Option("--top-k", min=0, help="Draw from this many likeliest; 0: from all.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="The same seed draws the same answers.")]

_IDLE_S = 86_400.0
"""The process ends with this one; until then somebody sits in front of it."""
_RESET = "/reset"


def chat(  # noqa: PLR0913 - one argument an option
    run_id: RunArgument, checkpoint: CheckpointOption = None, message: MessageOption = None,
    system: SystemOption = None, max_new_tokens: LengthOption = 512, temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0, top_k: TopKOption = 0, seed: SeedOption = 0, as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:  # fmt: skip
    """Talk to a run's model: in a terminal turn by turn, else one message from --message or standard input.

    Ctrl-C ends an answer, Ctrl-D the conversation; /reset forgets what was said. Exit code: 0 answered, 1 it failed.
    """
    with exit_codes():
        from horizon_app.cli.history import open_history
        from horizon_app.contracts.generation import TextAsked
        from horizon_app.control.run_models import saved_model

        settings = make_settings(home=home)
        with open_history(settings) as history:
            model = saved_model(history.show(run_id), settings.runs_dir, checkpoint)
        asked = TextAsked(
            prompt="-", max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed
        )
        if message is None and (as_json or not sys.stdin.isatty()):
            message = sys.stdin.read().strip()
            if not message:
                raise CommandFailed("standard input is empty; write a message, or give one with --message")
        _talk(_Talk(model, asked, system), message, as_json=as_json)


class _Talk:
    """A conversation with one checkpoint."""

    def __init__(self, model: "SavedModel", asked: "TextAsked", system: str | None) -> None:
        self.model, self._asked, self._system = model, asked, system
        self._said: list[ChatMessage] = []

    async def open(self) -> "GeneratorProcess":
        """Load the checkpoint."""
        from horizon_app.control.generators import GeneratorProcess

        process = GeneratorProcess(self.model, idle_s=_IDLE_S)
        say(f"loading the checkpoint of step {self.model.step}")
        self._has_template = (await process.start()).has_chat_template
        if not self._has_template:
            say("the tokenizer has no chat template: the model continues what you write")
            if self._system is not None:
                await process.close()
                raise CommandFailed("--system needs a chat template, and the model's tokenizer has none")
        self.forget()
        return process

    def forget(self) -> None:
        """Begin anew."""
        from horizon_app.contracts.generation import ChatMessage

        self._said = [] if self._system is None else [ChatMessage(role="system", content=self._system)]

    async def say(self, process: "GeneratorProcess", text: str, *, show: bool) -> "TextDone":
        """Ask, show the answer as it comes, and remember both."""
        from horizon_app.contracts.generation import ChatMessage, TextAdded, TextDone, TextRefused

        turns = [*self._said, ChatMessage(role="user", content=text)]
        how = {"prompt": None, "messages": turns} if self._has_template else {"prompt": text}
        async for event in process.answer(self._asked.model_copy(update=how)):
            if isinstance(event, TextAdded) and show:
                sys.stdout.write(printable(event.text))
                sys.stdout.flush()
            if isinstance(event, TextRefused):
                raise CommandFailed(event.message)
            if isinstance(event, TextDone):
                self._said = [*turns, ChatMessage(role="assistant", content=event.text)]
                return event
        raise CommandFailed("the model's process ended without an answer")


def _talk(talk: _Talk, message: str | None, *, as_json: bool) -> None:
    with asyncio.Runner() as runner:
        process = runner.run(talk.open())
        try:
            if message is None:
                _turns(talk, process, runner)
                return
            done = runner.run(talk.say(process, message, show=not as_json))
            body = {"id": talk.model.run_dir.name, **done.model_dump(mode="json", exclude={"type"})}
            if as_json:
                print_json(body)
            else:
                sys.stdout.write("\n")
        finally:
            runner.run(process.close())


def _turns(talk: _Talk, process: "GeneratorProcess", runner: asyncio.Runner) -> None:
    while True:
        try:
            text = input("> ").strip()  # in this thread, so that Ctrl-C reaches it
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return
        if text == _RESET:
            talk.forget()
        elif text:
            runner.run(_turn(talk, process, text))


async def _turn(talk: _Talk, process: "GeneratorProcess", text: str) -> None:
    """One answer, which Ctrl-C ends and nothing else."""
    try:
        await talk.say(process, text, show=True)
    except asyncio.CancelledError:  # what the runner makes of Ctrl-C
        await process.finish()
        say("the answer is cut off and not remembered")
    except CommandFailed as refused:
        say(str(refused))
    sys.stdout.write("\n")
