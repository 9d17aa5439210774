"""`python -m tests.support.fake_generator RUN_DIR STEP IDLE_S`: answers word by word without a model.

A prompt of `die` ends the process in the middle of its answer, `endless` goes on until it is cancelled, `babble` says
what nobody understands.
"""

import os
import sys
import time
from pathlib import Path

from pydantic import BaseModel

from horizon_app.contracts.generation import GeneratorReady, TextAdded, TextDone, TextRefused
from horizon_app.worker.generator import Inbox


def say(answer: BaseModel) -> None:
    sys.stdout.write(answer.model_dump_json() + "\n")
    sys.stdout.flush()


def main(run_dir: Path, step: int, idle_s: float) -> None:
    if not run_dir.joinpath("checkpoints", str(step)).is_dir():
        say(TextRefused(message="loading the checkpoint of step 7: there is none"))
        return
    say(GeneratorReady(checkpoint=step, has_chat_template=True))
    inbox = Inbox(sys.stdin.buffer)
    while (request := inbox.take(idle_s)) is not None:
        text, words = "", iter((request.asked.prompt or "").split())
        while inbox.is_wanted(request) and (word := next(words, None)) is not None:
            say(TextAdded(text=f"{word}."))
            text += f"{word}."
            if word == "die":
                sys.stderr.write("no memory left\n")
                sys.stderr.flush()
                os._exit(1)
            if word == "babble":
                sys.stdout.write("{}\n")
                sys.stdout.flush()
            while word == "endless" and inbox.is_wanted(request):
                time.sleep(0.01)
        ending = "stop" if inbox.is_wanted(request) else "cancelled"
        say(TextDone(text=text, checkpoint=step, prompt_tokens=1, new_tokens=1, ending=ending, seconds=0.0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
