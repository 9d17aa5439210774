"""What the kernel tells in its files, and the shape of a check."""

from pathlib import Path

from horizon_app.contracts.checks import Check, Verdict


def told(path: str) -> str:
    """A file of the kernel without the white space around it; empty where there is none."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def chosen(text: str) -> str:
    """The word in brackets, as in `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0]


def check(name: str, title: str, *, evidence: str, threshold: str = "", fault: tuple[Verdict, str] | None) -> Check:
    """A check that is fine unless there is a `fault`: how bad it is, and what to do."""
    verdict, fix = fault or (Verdict.OK, "")
    return Check(id=name, title=title, verdict=verdict, evidence=evidence, threshold=threshold, fix=fix)
