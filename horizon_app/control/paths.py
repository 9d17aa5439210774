"""Which files a spec may name: inside the home folder and the allowed folders, after every link is followed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from horizon_app.contracts.confinement import is_inside
from horizon_app.contracts.problems import FieldProblem
from horizon_app.settings import AppSettings


class PathRefused(ValueError):
    """A path that may not be used, or that is not there."""

    def __init__(self, message: str, fix: str) -> None:
        self.message, self.fix = message, fix
        super().__init__(f"{message}; {fix}")

    def problem(self, field: str) -> FieldProblem:
        """The same as a problem of one field."""
        return FieldProblem(field=field, message=self.message, fix=self.fix)


@dataclass(frozen=True, kw_only=True, slots=True)
class PathRules:
    """How a path of a spec becomes a real one."""

    base: Path
    """Relative paths start here."""
    roots: tuple[Path, ...] | None
    """Real paths must lie in one of these; None allows every path that the user could open."""
    kept: Path | None = None
    """Nothing new is made in here: the folder of the runs."""

    def resolve(self, text: str) -> Path:
        """The real path of an existing file or folder. Raises PathRefused."""
        real, exists = self._real(text)
        if not exists:
            raise PathRefused(f"{text[:200]!r} is not there", f"relative paths start at {self.base}")
        return real

    def resolve_new(self, text: str) -> Path:
        """The real path of a folder to be made, with whatever is missing above it. Raises PathRefused."""
        real, _ = self._real(text)
        if self.kept is not None and real.is_relative_to(self.kept):
            raise PathRefused(f"{text[:200]!r} lies in the folder of the runs", "name a folder outside of it")
        return real

    def _real(self, text: str) -> tuple[Path, bool]:
        """Where a path leads, and whether something is there."""
        if "\0" in text:
            raise PathRefused("a path can't hold a NUL character", "write a plain path")
        if self.roots is not None and text.startswith("~"):
            # Who starts the run writes it out again: no name may mean one place here and another one there.
            raise PathRefused(f"{text[:200]!r} starts with ~", "write the path out, relative to the home folder")
        named = Path(text) if self.roots is not None else Path(text).expanduser()
        try:
            real = (self.base / named).resolve()
            allowed = is_inside(real, self.roots)
            exists = allowed and real.exists()
        except (OSError, RuntimeError, ValueError) as error:  # too long, a circle of links, no text
            raise PathRefused(f"{text[:200]!r} can't be read: {type(error).__name__}", "check the path") from error
        if not allowed:
            raise PathRefused(
                f"{text[:200]!r} lies outside of the allowed folders",
                "put it into the home folder, or name its folder in HORIZON_FOLDERS and restart the server",
            )
        return real, exists

    def resolve_all(self, field: str, value: str | list[str], problems: list[FieldProblem]) -> list[Path]:
        """The real paths of one or several; what is wrong with some of them goes into `problems`."""
        one = isinstance(value, str)
        found: list[Path] = []
        for index, text in enumerate([value] if isinstance(value, str) else value):
            try:
                found.append(self.resolve(text))
            except PathRefused as error:
                problems.append(error.problem(field if one else f"{field}.{index}"))
        return found


def rules_for_clients(settings: AppSettings) -> PathRules:
    """For what comes over the wire: relative to the home folder, confined to it and the allowed folders."""
    roots = (settings.home, *settings.folders)
    real = tuple(root.expanduser().resolve() for root in roots)
    return PathRules(base=settings.home, roots=real, kept=settings.runs_dir.resolve())


def rules_for_clone(settings: AppSettings, base: Path, used: Iterable[Path]) -> PathRules:
    """For a client that has a run's spec run again: what that run uses it may name, wherever the user had it."""
    rules = rules_for_clients(settings)
    return replace(rules, base=base, roots=(*(rules.roots or ()), *used))


def rules_for_user(base_dir: Path) -> PathRules:
    """For the command line: relative to the spec file, and as free as the user who typed it."""
    return PathRules(base=base_dir.resolve(), roots=None)
