"""A run spec from a YAML or JSON file, with the line of every key, so that a problem can name its place."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from horizon_app.contracts.problems import FieldProblem, SpecRefused
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.spec_parse import parse_spec

MOST_BYTES = 1 << 20
"""A spec file larger than this is something else."""

KeyPath = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecSource:
    """A decoded spec document and where its keys stand."""

    path: Path
    document: Any
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    overrides: dict[KeyPath, str] = field(default_factory=dict[KeyPath, str])
    """Keys that came from the command line, with the option as it was written."""

    def parse(self) -> RunSpec:
        """The typed spec. Raises SpecRefused whose problems name file and line."""
        try:
            return parse_spec(self.document)
        except SpecRefused as refused:
            raise self.placed(refused) from None

    def placed(self, refused: SpecRefused) -> SpecRefused:
        """The same problems, each with the file and line, or the option, that its field came from."""
        return SpecRefused([self._place(problem) for problem in refused.errors])

    def _place(self, problem: FieldProblem) -> FieldProblem:
        if problem.file is not None:
            return problem  # it lies in a file that the spec names
        keys = tuple(problem.field.split("."))
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.overrides:
                return problem.model_copy(update={"file": self.overrides[keys[:length]], "line": None})
            if keys[:length] in self.lines:
                return problem.model_copy(update={"file": str(self.path), "line": self.lines[keys[:length]]})
        return problem.model_copy(update={"file": str(self.path)})


def read_spec_file(path: Path) -> SpecSource:
    """Decode a .json file as JSON and any other as YAML. Raises SpecRefused that names file and line."""
    text = _read_text(path)
    if path.suffix.lower() == ".json":
        return SpecSource(path=path, document=_decode_json(path, text), lines=_json_lines(path, text))
    document, lines = _decode_yaml(path, text)
    return SpecSource(path=path, document=document, lines=lines)


def parse_value(text: str) -> Any:
    """The value of one `key=value` on the command line, typed as YAML would. Raises yaml.YAMLError."""
    loader = _SpecLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class _SpecLoader(yaml.SafeLoader):
    """YAML as its users mean it: 2e-5 is a number, 2026-01-31 is text, and a key stands once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own shape
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":float"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """With the two escapes that JSON writes of an emoji as the one character that they are there."""
        text = str(super().construct_scalar(node))  # pyright: ignore[reportUnknownMemberType] - PyYAML's stubs
        return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
# Integers are tried first; what is left and looks like a number is one.
_SpecLoader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType] - PyYAML's stubs
    "tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789")
)


def _read_text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise _refusal(path, f"{size} bytes, a spec has at most {MOST_BYTES}", fix="name a YAML or JSON file")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _refusal(path, f"can't be read: {error.strerror or error}", fix="name a file that exists") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise _refusal(path, f"not UTF-8 at byte {error.start}", line=line, fix="save it as UTF-8") from error


def _decode_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _refusal(path, f"not JSON: {error.msg} at column {error.colno}", line=error.lineno) from error
    except RecursionError as error:
        raise _refusal(path, "nested too deeply") from error


def _json_lines(path: Path, text: str) -> dict[KeyPath, int]:
    """JSON is YAML once its tabs are spaces, and YAML knows its lines; where it is not, problems go without a line."""
    try:
        return _decode_yaml(path, text.replace("\t", " "))[1]
    except SpecRefused:
        return {}


def _decode_yaml(path: Path, text: str) -> tuple[Any, dict[KeyPath, int]]:
    lines: dict[KeyPath, int] = {}
    try:
        loader = _SpecLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, lines
            _note_lines(node, (), lines, set())
            document: Any = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType] - as above
            return document, lines
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _refusal(path, f"not YAML: {what}", line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise _refusal(path, f"not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise _refusal(path, "nested too deeply") from error


def _note_lines(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], seen: set[int]) -> None:
    if id(node) in seen:
        return  # an alias: its keys stand where the anchor is
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[*path, str(index)] = item.start_mark.line + 1
            _note_lines(item, (*path, str(index)), lines, seen)
    if isinstance(node, yaml.MappingNode):
        _note_mapping(node, path, lines, seen)


def _note_mapping(node: yaml.MappingNode, path: KeyPath, lines: dict[KeyPath, int], seen: set[int]) -> None:
    here: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        name = str(key.value)
        if name in here and name != "<<":
            raise yaml.MarkedYAMLError(
                problem=f"key {name!r} stands twice, first in line {here[name]}", problem_mark=key.start_mark
            )
        here[name] = line
        below = path if name == "<<" else (*path, name)
        lines.setdefault(below, line)
        _note_lines(value, below, lines, seen)


def _refusal(path: Path, message: str, *, line: int | None = None, fix: str = "") -> SpecRefused:
    return SpecRefused([FieldProblem(field="", message=message, fix=fix, file=str(path), line=line)])
