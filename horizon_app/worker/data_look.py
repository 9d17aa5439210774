"""`python -m horizon_app.worker.data_look IDLE_S`: looks at data for a server, one question after the other.

A question is a line of JSON on standard input, its answer one on standard output. The process ends when its input does,
or when nobody has asked for IDLE_S seconds. It is kept because of what it imports, not of what it has seen: every look
reads the tokenizer and the files anew.
"""

import logging
import select
import sys
from typing import BinaryIO

from horizon_app.contracts.data_view import LookAsked, LookFailed
from horizon_app.logs import log_to_stderr
from horizon_app.settings import AppSettings
from horizon_app.worker.answers import Say, own_output
from horizon_app.worker.environment import lay_environment

_log = logging.getLogger(__name__)


def do_without_torch() -> None:
    """Have this process find no PyTorch, before transformers is imported.

    Without it transformers offers configurations, tokenizers and chat templates, which is all that a look needs; with
    it, it is imported for the sake of models, which takes most of the time and of the memory.
    """
    sys.modules["torch"] = None  # pyright: ignore[reportArgumentType] # how Python has it for what can't be imported


def main(idle_s: float, questions: BinaryIO, say: Say) -> None:
    """Answer until nobody asks."""
    while select.select([questions], [], [], idle_s)[0]:
        line = questions.readline()
        if not line:
            return  # the owner is gone
        try:
            answer(LookAsked.model_validate_json(line), say)
        # The process's entry: whatever goes wrong, in any library, is told to whoever waits.
        except Exception as error:  # noqa: BLE001
            _log.exception("a look at data failed")
            say(LookFailed(cause=f"{type(error).__name__}: {error}"))


def answer(asked: LookAsked, say: Say) -> None:
    """Say what the data is."""
    from horizon_app.data.preview import preview

    say(preview(asked.paths, asked.spec, tokenizer_dir=asked.tokenizer_dir, most_samples=asked.most_samples))


if __name__ == "__main__":
    lay_environment()
    do_without_torch()
    settings = AppSettings()
    log_to_stderr(settings.log_format, settings.log_level)
    main(float(sys.argv[1]), sys.stdin.buffer, own_output())
