"""Checkpoints that answer: each in a process of its own, since the server never loads a model."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator

from horizon_app.contracts.generation import (
    GENERATOR_EVENT,
    CancelGeneration,
    Generate,
    GeneratorEvent,
    GeneratorReady,
    TextAsked,
    TextDone,
    TextRefused,
)
from horizon_app.control.errors import GeneratorBusy, GeneratorFailed
from horizon_app.control.process_log import last_line
from horizon_app.control.run_models import SavedModel

MODULE = "horizon_app.worker.generator"
_LONGEST_LINE = 16 << 20
_CANCEL_GRACE_S = 60.0
"""How long a cancelled answer may take to its next token before its process is ended."""
_LOG_NAME = "generator.log"


class GeneratorProcess:
    """One process with one checkpoint loaded. Answers one request at a time."""

    def __init__(self, model: SavedModel, *, idle_s: float) -> None:
        """It ends by itself after `idle_s` seconds without a request, and with this process."""
        self.model, self._idle_s = model, idle_s
        self._log_path = model.run_dir / _LOG_NAME
        self._process: asyncio.subprocess.Process | None = None
        self._last_id = 0
        self._waiting = False  # the last answer has not been read to its end

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> GeneratorReady:
        """Start the process, and wait until the model is loaded. Raises GeneratorFailed, OSError."""
        with self._log_path.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", MODULE, str(self.model.run_dir), str(self.model.step), str(self._idle_s),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, limit=_LONGEST_LINE,
                start_new_session=True,
            )  # fmt: skip
        try:
            event = await self._read()
        except BaseException:
            self.kill()
            raise
        if not isinstance(event, GeneratorReady):
            raise GeneratorFailed(event.message if isinstance(event, TextRefused) else f"it said {event.type} first")
        return event

    async def answer(self, asked: TextAsked) -> AsyncGenerator[GeneratorEvent]:
        """The answer, piece by piece, up to TextDone or TextRefused. Raises GeneratorFailed where the process is gone.

        Whoever leaves before the end has to call `finish`.
        """
        self._last_id += 1
        self._write(Generate(id=self._last_id, asked=asked))
        self._waiting = True
        while self._waiting:
            event = await self._read()
            self._waiting = not isinstance(event, TextDone | TextRefused)
            yield event

    async def finish(self) -> None:
        """Cancel what is still being answered, and wait until the process is ready for the next request."""
        if not self._waiting or not self.is_alive:
            return
        try:
            self._write(CancelGeneration(id=self._last_id))
            async with asyncio.timeout(_CANCEL_GRACE_S):
                while self._waiting:
                    self._waiting = not isinstance(await self._read(), TextDone | TextRefused)
        except (TimeoutError, GeneratorFailed):
            self.kill()

    def kill(self) -> None:
        """End the process now."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """End the process and wait for its end."""
        self.kill()
        if self._process is not None:
            await self._process.wait()

    def _write(self, command: Generate | CancelGeneration) -> None:
        stdin = self._process and self._process.stdin
        if stdin is None or stdin.is_closing():
            raise GeneratorFailed(self._last_words())
        stdin.write(command.model_dump_json().encode() + b"\n")

    async def _read(self) -> GeneratorEvent:
        stdout = self._process and self._process.stdout
        try:
            line = b"" if stdout is None else await stdout.readline()
            if line:
                return GENERATOR_EVENT.validate_json(line)
        except ValueError as error:  # a line without end, or one that says nothing known
            await self.close()
            raise GeneratorFailed(f"its process does not speak as it should: {error}") from error
        await self.close()  # its output ends a moment before it does: nobody may take it for alive meanwhile
        raise GeneratorFailed(self._last_words())

    def _last_words(self) -> str:
        return f"its process is gone{last_line(self._log_path)}"


class Generators:
    """The one process that a server keeps: the checkpoint that was asked last."""

    def __init__(self, *, idle_s: float) -> None:
        self._idle_s = idle_s
        self._process: GeneratorProcess | None = None
        self._busy: str | None = None  # the run that answers now
        self._finishing: set[asyncio.Task[None]] = set()

    async def answer(self, model: SavedModel, asked: TextAsked) -> AsyncGenerator[GeneratorEvent]:
        """What a checkpoint answers; leaving early cancels it. Raises GeneratorBusy, GeneratorFailed, OSError."""
        if self._busy is not None:
            raise GeneratorBusy(run_id=self._busy)
        self._busy = model.run_dir.name
        try:
            process = await self._ready(model)
            async with contextlib.aclosing(process.answer(asked)) as events:
                async for event in events:
                    yield event
        finally:
            # Beside whoever leaves: a client that has gone can't wait for the next token.
            task = asyncio.create_task(self._finish())
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)

    async def forget(self, run_id: str) -> None:
        """End the process where it holds the files of a run that is to be deleted. Raises GeneratorBusy."""
        if self._process is None or self._process.model.run_dir.name != run_id:
            return
        await asyncio.gather(*self._finishing)  # an answer that is over, or was left, comes to its end first
        if self._busy is not None:
            raise GeneratorBusy(run_id=run_id)
        await self.close()

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            await self._process.close()
            self._process = None

    async def _ready(self, model: SavedModel) -> GeneratorProcess:
        now = self._process
        if now is not None and now.is_alive and now.model == model:
            return now
        await self.close()
        self._process = GeneratorProcess(model, idle_s=self._idle_s)
        await self._process.start()
        return self._process

    async def _finish(self) -> None:
        try:
            if self._process is not None:
                await self._process.finish()
        finally:
            self._busy = None
