"""Token samples of at most one sequence each, in flat arrays that lie in files: memory holds what is looked at."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from horizon_app.data.files import is_document
from horizon_app.data.sequences import TokenSequence

_MOST_NAMED = 3
_ARRAYS: dict[str, type[np.generic]] = {
    "ids": np.int32, "trained": np.bool_, "lengths": np.int32, "trained_counts": np.int32, "digests": np.uint64,
    "file": np.int32, "line": np.int64, "piece": np.int32,
}  # fmt: skip
_FACTS = "facts.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """All samples behind each other. Sample `i` is `ids[starts[i]:starts[i + 1]]`.

    Shapes: `ids` [tokens] int32; `trained` [tokens] bool, never true at a sample's first token; `starts`
    [samples + 1] int64; all others [samples]. `trained_counts` counts the trained tokens, `digests` holds 64 bits of
    the content, `file` counts in `files`, `line` from 1, `piece` from 1 the sequences that a long text was cut into, 0
    where it was not cut.
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.bool_]
    starts: NDArray[np.int64]
    trained_counts: NDArray[np.int32]
    digests: NDArray[np.uint64]
    files: tuple[str, ...]
    file: NDArray[np.int32]
    line: NDArray[np.int64]
    piece: NDArray[np.int32]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sample."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def origins(self, samples: Sequence[int]) -> str:
        """Where some samples came from, in words, at most three of them; empty for none."""
        named = ", ".join(self._origin(sample) for sample in samples[:_MOST_NAMED])
        more = len(samples) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named

    def _origin(self, sample: int) -> str:
        path, piece = Path(self.files[int(self.file[sample])]), int(self.piece[sample])
        # A text file is one row, which begins at line 1 whatever the piece: the number would mislead.
        line = "" if is_document(path) else f" line {self.line[sample]}"
        return f"{path.name}{line}{f' piece {piece}' if piece else ''}"


class SampleDigest:
    """A digest of samples as they come: their ids, which of them are trained, and where each sample ends."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.largest_id = -1

    def add(self, sequence: TokenSequence) -> None:
        """Take the next sample."""
        self._digest.update(len(sequence.ids).to_bytes(8, "little"))
        self._digest.update(sequence.ids.astype("<i4", copy=False).tobytes())
        self._digest.update(sequence.trained.tobytes())
        self.largest_id = max(self.largest_id, int(sequence.ids.max()))

    def hexdigest(self) -> str:
        """The digest until now."""
        return self._digest.hexdigest()


class SampleWriter:
    """Writes samples into the files of a folder, one by one."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        """Open the files. Raises OSError."""
        self.digest = SampleDigest()
        self._folder = folder
        self._file_numbers = {str(path): number for number, path in enumerate(files)}
        self._outputs: dict[str, IO[bytes]] = {name: (folder / name).open("wb", 1 << 20) for name in _ARRAYS}

    def add(self, sequence: TokenSequence) -> None:
        """Write one sample. Raises OSError."""
        self.digest.add(sequence)
        values: dict[str, Any] = {
            "ids": sequence.ids, "trained": sequence.trained, "lengths": len(sequence.ids),
            "trained_counts": np.count_nonzero(sequence.trained), "digests": sequence.digest,
            "file": self._file_numbers[sequence.row.file], "line": sequence.row.line, "piece": sequence.piece,
        }  # fmt: skip
        for name, value in values.items():
            self._outputs[name].write(np.asarray(value, _ARRAYS[name]).tobytes())

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the facts last: a folder without them is not whole. Raises OSError."""
        sizes = {name: file.tell() for name, file in self._outputs.items()}
        self.close()
        content = {**facts, "files": list(self._file_numbers), "sizes": sizes}
        (self._folder / _FACTS).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    def close(self) -> None:
        """Close the files."""
        for file in self._outputs.values():
            file.close()


def open_samples(folder: Path) -> tuple[Samples, dict[str, Any]] | None:
    """The samples of a folder and the facts beside them; None where it is not whole."""
    try:
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        if any((folder / name).stat().st_size != facts["sizes"][name] for name in _ARRAYS):
            return None
        arrays: dict[str, Any] = {name: _mapped(folder / name, kind) for name, kind in _ARRAYS.items()}
    except (OSError, ValueError, KeyError):
        return None
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(arrays.pop("lengths"), dtype=np.int64)])
    return Samples(starts=starts, files=tuple(facts["files"]), **arrays), facts


def _mapped(path: Path, kind: type[np.generic]) -> NDArray[Any]:
    # A map of nothing is an error.
    return np.memmap(path, kind, mode="r") if path.stat().st_size else np.empty(0, kind)
