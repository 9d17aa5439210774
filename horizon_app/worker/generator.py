"""`python -m horizon_app.worker.generator RUN_DIR STEP IDLE_S`: a checkpoint that answers.

Commands come as lines of JSON on standard input, answers go as lines of JSON to standard output. The process ends when
its input does, or when nobody has asked for IDLE_S seconds.
"""

import logging
import os
import queue
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pydantic import ValidationError

from horizon_app.contracts.checkpoints import link_in
from horizon_app.contracts.generation import (
    GENERATOR_COMMAND,
    CancelGeneration,
    Generate,
    GeneratorReady,
    TextAdded,
    TextAsked,
    TextDone,
    TextRefused,
)
from horizon_app.data.errors import DataError
from horizon_app.engine.errors import BadBatch, CheckpointUnusable, EngineError
from horizon_app.engine.training.requests import Sampling
from horizon_app.logs import log_to_stderr
from horizon_app.settings import AppSettings
from horizon_app.worker.answers import Say, own_output
from horizon_app.worker.environment import prepare_process
from horizon_app.worker.failure import failure_reason
from horizon_app.worker.order import read_order

if TYPE_CHECKING:  # torch and transformers take seconds
    from horizon_app.engine.training.inference import InferenceEngine
    from horizon_app.worker.prompts import PromptWriter

_log = logging.getLogger(__name__)


class Inbox:
    """The commands of the owner. A thread reads them, so that a request can be cancelled while it is answered."""

    def __init__(self, stream: BinaryIO) -> None:
        self.ended = False
        """The owner is gone."""
        self._requests: queue.SimpleQueue[Generate | None] = queue.SimpleQueue()
        self._cancelled = -1
        threading.Thread(target=self._read, args=(stream,), name="inbox", daemon=True).start()

    def take(self, timeout_s: float) -> Generate | None:
        """The next request; None when the owner is gone or has asked for nothing in that time."""
        try:
            return self._requests.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def is_wanted(self, request: Generate) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.ended and self._cancelled < request.id

    def _read(self, stream: BinaryIO) -> None:
        for line in stream:
            try:
                command = GENERATOR_COMMAND.validate_json(line)
            except ValidationError:
                _log.warning("a command was not understood and is ignored: %s", line[:200].decode(errors="replace"))
                continue
            if isinstance(command, CancelGeneration):
                self._cancelled = max(self._cancelled, command.id)
            else:
                self._requests.put(command)
        self.ended = True
        self._requests.put(None)


class Generator:
    """One loaded checkpoint."""

    def __init__(self, step: int, engine: "InferenceEngine", writer: "PromptWriter", inbox: Inbox, say: Say) -> None:
        self._step, self._engine, self._writer, self._inbox, self._say = step, engine, writer, inbox, say

    def answer(self, request: Generate) -> None:
        """Say the answer, piece by piece and then whole."""
        from horizon_app.worker.prompts import TextStream

        begin = time.perf_counter()
        stream = TextStream(self._writer)

        def listen(new: list[int | None]) -> bool:
            piece = "" if new[0] is None else stream.add(new[0])
            if piece:
                self._say(TextAdded(text=piece))
            return self._inbox.is_wanted(request) and not stream.ended

        ids = self._tokens(request.asked)
        (found,) = self._engine.generate([ids], self._sampling(request.asked), listen)
        if rest := stream.rest():
            self._say(TextAdded(text=rest))
        self._say(
            TextDone(
                text=self._writer.text(found.tokens), checkpoint=self._step, prompt_tokens=len(ids),
                new_tokens=len(found.tokens), ending="stop" if stream.ended else found.ending.value,
                seconds=time.perf_counter() - begin,
            )
        )  # fmt: skip

    def _tokens(self, asked: TextAsked) -> list[int]:
        if asked.messages is None:
            return self._writer.continued(asked.prompt or "")
        if not self._writer.has_chat_template:
            raise BadBatch("the model's tokenizer has no chat template; send a prompt to continue instead of messages")
        return self._writer.chat([message.model_dump() for message in asked.messages])

    def _sampling(self, asked: TextAsked) -> Sampling:
        return Sampling(
            max_new_tokens=asked.max_new_tokens, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p,
            stop_ids=self._writer.stop_ids, seed=asked.seed,
        )  # fmt: skip


def main(run_dir: Path, step: int, idle_s: float, *, commands: BinaryIO, say: Say) -> int:
    """Load the checkpoint and answer until nobody asks; gives the exit code."""
    inbox = Inbox(commands)
    doing = f"loading the checkpoint of step {step}"
    try:
        generator, ready = _load(run_dir, step, inbox, say)
    # The process's entry: whatever goes wrong, in any library, is told to whoever waits.
    except Exception as error:  # noqa: BLE001
        _log.exception("%s", doing)
        say(TextRefused(message=failure_reason(error, doing, run_dir)))
        return 1
    say(ready)
    while (request := inbox.take(idle_s)) is not None:
        try:
            generator.answer(request)
        except (EngineError, DataError) as error:
            say(TextRefused(message=str(error)))
        # A chat template is a program that comes with the model, and fails in its own ways.
        except Exception as error:  # noqa: BLE001
            _log.exception("an answer")
            say(TextRefused(message=failure_reason(error, "writing the answer", run_dir)))
    return 0


def _load(run_dir: Path, step: int, inbox: Inbox, say: Say) -> tuple[Generator, GeneratorReady]:
    order = read_order(run_dir)
    from horizon_app.contracts.run_spec import Init
    from horizon_app.engine.training.config import EngineConfig
    from horizon_app.engine.training.inference import InferenceEngine
    from horizon_app.worker.prompts import load_prompt_writer

    folder = run_dir / "checkpoints" / str(step)
    if link := link_in(folder):
        raise CheckpointUnusable(f"{folder}: {link}")
    config = replace(EngineConfig.from_spec(order.spec, folder, order.disk_dir), init=Init.PRETRAINED)
    writer = load_prompt_writer(folder, order.spec.data.chat_template)
    generator = Generator(step, InferenceEngine(config), writer, inbox, say)
    return generator, GeneratorReady(checkpoint=step, has_chat_template=writer.has_chat_template)


if __name__ == "__main__":
    prepare_process()
    settings = AppSettings()
    log_to_stderr(settings.log_format, settings.log_level)
    # At once, whatever threads a library has left behind.
    os._exit(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), commands=sys.stdin.buffer, say=own_output()))
