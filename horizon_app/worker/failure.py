"""From an exception to the one sentence that says why a run failed, with the numbers."""

import errno
import shutil
import traceback
from pathlib import Path

import psutil

from horizon_app.contracts.confinement import LeadsOut
from horizon_app.contracts.problems import SpecRefused
from horizon_app.contracts.sizes import show_bytes
from horizon_app.data.errors import DataError
from horizon_app.engine.errors import EngineError
from horizon_app.engine.hardware.memory_errors import is_out_of_memory
from horizon_app.worker.checkpoints import CheckpointNotWritten
from horizon_app.worker.resumption import DataChanged

_DISK_WORDS = ("no space left", "disk quota exceeded", "os error 28")
_MOST_CHARACTERS = 600
_LAST_CHARACTERS = 250


def failure_reason(error: BaseException, doing: str, run_dir: Path) -> str:
    """One sentence: what was being done, what went wrong, and the memory or disk left where that was the cause."""
    text = _cause(error)
    if is_out_of_memory(error):
        text = f"out of memory ({text}); {_memory_left()}"
    elif _is_disk_full(error):
        text = f"{text}; {_disk_left(run_dir)}"
    sentence = " ".join(f"{doing}: {text}".split())
    if len(sentence) <= _MOST_CHARACTERS:
        return sentence
    # What happened stands first and what to do last: of a long sentence the middle is left out.
    return f"{sentence[: _MOST_CHARACTERS - _LAST_CHARACTERS - 3]} … {sentence[-_LAST_CHARACTERS:]}"


def trace_lines(error: BaseException) -> list[str]:
    """The whole trace of `error` and of its causes, a line each."""
    return "".join(traceback.format_exception(error)).rstrip().splitlines()


def _cause(error: BaseException) -> str:
    if isinstance(error, DataError):
        return _data_cause(error)
    text = str(error).strip()
    if isinstance(error, EngineError | SpecRefused | CheckpointNotWritten | DataChanged | LeadsOut):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _data_cause(error: DataError) -> str:
    if not error.problems:
        return str(error)
    first = error.problems[0]
    place = f"{first.file or first.field}{f' line {first.line}' if first.line else ''}"
    more = f" (first of {error.total} problems)" if error.total > 1 else ""
    return f"{place}: {first.message}{f'; {first.fix}' if first.fix else ''}{more}"


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, CheckpointNotWritten):
        return False  # it says the numbers itself
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return True
    # safetensors raises its own error, which only says so in words.
    return any(word in str(error).lower() for word in _DISK_WORDS)


def _memory_left() -> str:
    memory = psutil.virtual_memory()
    resident = psutil.Process().memory_info().rss
    return (
        f"the worker holds {show_bytes(resident)} of {show_bytes(memory.total)} RAM, "
        f"{show_bytes(memory.available)} are free; a smaller micro_batch_size, sequence_length "
        "or max_gpu_blocks needs less"
    )


def _disk_left(run_dir: Path) -> str:
    try:
        usage = shutil.disk_usage(run_dir)
    except OSError:
        return "the disk of the run's folder can't be asked how much it has left"
    return f"{show_bytes(usage.free)} of {show_bytes(usage.total)} are free on the disk of the run's folder"
