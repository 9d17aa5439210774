"""Tokenised data is kept in files, by what it was made from: the bytes of the data, the tokenizer and the options."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers
import xxhash

from horizon_app.contracts.confinement import open_confined
from horizon_app.data.errors import DataError, DataStopped, refused
from horizon_app.data.samples import Samples, SampleWriter, open_samples

MOST_BYTES = 64 << 30
"""Old entries go where all of them take more than this."""

_LAYOUT = 1
_PARTIAL = ".making-"
_ABANDONED_S = 7 * 86400
_READ_BYTES = 4 << 20


class TokenCache:
    """A folder with an entry for each set of files, tokenizer and options. Several processes may use it."""

    def __init__(self, folder: Path, should_stop: Callable[[], bool] = lambda: False) -> None:
        """`should_stop` is asked now and then; whoever is at it then gets DataStopped."""
        self._folder, self._should_stop = folder, should_stop

    def samples(
        self, files: Sequence[Path], options: dict[str, Any], write: Callable[[SampleWriter], dict[str, Any]]
    ) -> tuple[Samples, dict[str, Any]]:
        """The samples of `files` and the facts that `write` told of them.

        `write` is called where they are not there yet. Raises DataError, also for files that change meanwhile and for
        a disk that is full.
        """
        before = [_stamp(path) for path in files]
        entry = self._folder / _key(files, options, self._should_stop)
        found = open_samples(entry)
        if found is None:
            self._make(entry, files, before, write)
            found = open_samples(entry)
        if found is None:
            raise refused("data.path", f"the tokenised data in {entry} was removed while it was read", "start again")
        with suppress(OSError):
            os.utime(entry)
        return found

    def _make(
        self, entry: Path, files: Sequence[Path], before: list[tuple[int, ...]],
        write: Callable[[SampleWriter], dict[str, Any]],
    ) -> None:  # fmt: skip
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self._folder))
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        try:
            writer = SampleWriter(partial, files)
            try:
                facts = write(writer)
                for path, stamp in zip(files, before, strict=True):
                    if _stamp(path) != stamp:
                        raise refused("data.path", "the file changed while it was read", "start again", file=str(path))
                writer.finish(facts)
            finally:
                writer.close()
            if open_samples(entry) is None:  # another process may have been faster
                shutil.rmtree(entry, ignore_errors=True)
                partial.rename(entry)
            with suppress(OSError):  # another process may be doing the same
                self._forget_old(entry)
        except DataError:
            raise
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _forget_old(self, newest: Path) -> None:
        """Remove what was not used for longest; a process that has such files open keeps its maps of them."""
        for partial in self._folder.glob(f"{_PARTIAL}*"):
            if time.time() - partial.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(partial, ignore_errors=True)
        entries = [entry for entry in self._folder.iterdir() if not entry.name.startswith(".")]
        sizes = {entry: sum(file.stat().st_size for file in entry.iterdir()) for entry in entries}
        total = sum(sizes.values())
        for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime):
            if total <= MOST_BYTES or entry == newest:
                continue
            shutil.rmtree(entry, ignore_errors=True)
            total -= sizes[entry]


def _key(files: Sequence[Path], options: dict[str, Any], should_stop: Callable[[], bool]) -> str:
    content = [(str(path), _content_digest(path, should_stop)) for path in files]
    made_by = {"layout": _LAYOUT, "tokenizers": tokenizers.__version__}
    return hashlib.sha256(json.dumps([content, options, made_by], sort_keys=True).encode()).hexdigest()[:32]


def _content_digest(path: Path, should_stop: Callable[[], bool]) -> str:
    digest = xxhash.xxh3_128()
    try:
        with open_confined(path) as file:
            while chunk := file.read(_READ_BYTES):
                digest.update(chunk)
                if should_stop():
                    raise DataStopped
    except OSError as error:
        message = f"the file can't be read: {error.strerror or error}"
        raise refused("data.path", message, "check the file", file=str(path)) from error
    return digest.hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes where a file is written or replaced, whatever its name, size and time stamp say."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _unwritable(folder: Path, error: OSError) -> DataError:
    if error.errno == errno.ENOSPC:
        free = shutil.disk_usage(folder).free >> 20
        message = f"the disk of {folder} is full ({free} MiB free): tokenised data takes 5 bytes a token"
        return refused("data.path", message, "free some space there, or choose another home folder (HORIZON_HOME)")
    message = f"tokenised data can't be written to {folder}: {error.strerror or error}"
    return refused("data.path", message, "make the folder writable, or choose another home folder (HORIZON_HOME)")
