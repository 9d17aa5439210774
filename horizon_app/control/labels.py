"""Names, tags and notes are labels and may say anything that can be shown; ids are the keys."""

import unicodedata

from horizon_app.contracts.problems import FieldProblem

MOST_NAME, MOST_TAG, MOST_TAGS, MOST_NOTES = 200, 100, 50, 100_000


def label_problems(
    *, name: str | None = None, tags: list[str] | None = None, notes: str | None = None
) -> list[FieldProblem]:
    """What is wrong with a run's labels; None is not looked at."""
    found: list[FieldProblem] = []
    if name is not None:
        if not name.strip():
            found.append(FieldProblem(field="name", message="the name is empty", fix="leave it out, or write one"))
        found += _text_problems("name", name, MOST_NAME)
    for index, tag in enumerate(tags or []):
        if not tag.strip():
            found.append(FieldProblem(field=f"tags.{index}", message="the tag is empty", fix="leave it out"))
        found += _text_problems(f"tags.{index}", tag, MOST_TAG)
    if tags is not None and len(tags) > MOST_TAGS:
        found.append(FieldProblem(field="tags", message=f"{len(tags)} tags", fix=f"keep {MOST_TAGS} at most"))
    if notes is not None:
        found += _text_problems("notes", notes, MOST_NOTES, lines=True)
    return found


def label_from(text: str) -> str:
    """A name made of the name of a folder, which may hold what no label does."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _is_bad(c) else c for c in text)
    return shown.strip()[:MOST_NAME] or "run"


def _text_problems(field: str, text: str, most: int, *, lines: bool = False) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if len(text) > most:
        found.append(FieldProblem(field=field, message=f"{len(text)} characters", fix=f"keep {most} at most"))
    allowed = "\n\r\t" if lines else ""
    bad = next((c for c in text if _is_bad(c) and c not in allowed), None)
    if bad is not None:
        message = f"holds the control character U+{ord(bad):04X}"
        found.append(FieldProblem(field=field, message=message, fix="write characters that can be shown"))
    return found


def _is_bad(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")
