"""What a process that ended too early has said last: the reason that its caller shows."""

from pathlib import Path

_SHOWN = 500


def last_line(path: Path) -> str:
    """The last line of a log, behind a colon and shortened; nothing where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f": {lines[-1][:_SHOWN]}" if lines else ""
