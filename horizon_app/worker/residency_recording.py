"""A recording of residency frames that several workers of one run write, one after the other."""

from horizon_app.contracts.residency import HEADER_BYTES, decode_header
from horizon_app.worker.durable_files import AppendFile


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
