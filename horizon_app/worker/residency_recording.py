"""A recording of residency frames that several workers of one run write, one after the other."""

from pathlib import Path

from horizon_app.contracts.residency import HEADER_BYTES, decode_header
from horizon_app.worker.durable_files import AppendFile

MOST_BYTES = 256 << 20
"""How large a recording grows: past it, every second frame of its older half goes."""
_COPY_BYTES = 1 << 20


def thin_older_half(recording: AppendFile, path: Path, frame_bytes: int) -> AppendFile:
    """Drop every second frame of the older half of the recording at `path`; gives the one to go on with.

    So the longer ago, the fewer frames a second are left, while the newest half keeps them all. Raises OSError, and
    then the recording is as it was.
    """
    end = recording.num_bytes
    middle = end // frame_bytes // 2 * frame_bytes
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            for start in range(0, middle, 2 * frame_bytes):
                file.write(recording.read_at(start, frame_bytes))
            for start in range(middle, end, _COPY_BYTES):
                file.write(recording.read_at(start, min(_COPY_BYTES, end - start)))
        thinned = AppendFile(partial)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    recording.close()
    return thinned


def forget_later_frames(recording: AppendFile, first_frame: bytes) -> None:
    """Cut a recording to what `first_frame` may follow: steps never fall in it, and all frames have one length.

    A run that goes on from an earlier step does steps again, and only the last time counts. With another block size or
    other tiers its frames have another length: what was recorded before can't be shown beside them.
    """
    length = len(first_frame)
    if recording.num_bytes >= length and _one_length(recording, first_frame):
        step = decode_header(first_frame[:HEADER_BYTES])[0].step
        low, high = 0, recording.num_bytes // length
        while low < high:
            middle = (low + high) // 2
            header, _ = decode_header(recording.read_at(middle * length, HEADER_BYTES))
            low, high = (middle + 1, high) if header.step < step else (low, middle)
        recording.cut(low * length)
    else:
        recording.cut(0)


def _one_length(recording: AppendFile, frame: bytes) -> bool:
    try:
        old = decode_header(recording.read_at(0, HEADER_BYTES))
    except ValueError:
        return False
    new = decode_header(frame[:HEADER_BYTES])
    return (old[0].num_blocks, old[1]) == (new[0].num_blocks, new[1])
