"""Standard output of a process that answers its owner: a line of JSON an answer, and nothing else gets there."""

import os
import sys
from collections.abc import Callable

from pydantic import BaseModel

Say = Callable[[BaseModel], None]


def own_output() -> Say:
    """Keep standard output for answers: what libraries print goes where errors go."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(answer: BaseModel) -> None:
        answers.write(answer.model_dump_json().encode() + b"\n")
        answers.flush()

    return say
