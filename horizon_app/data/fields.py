"""Fields of a row: checked values, and what is wrong with others, told with their place."""

import json
from typing import Any, cast

from horizon_app.data.errors import BadRow
from horizon_app.data.records import kind_of


def text_field(value: Any, place: str) -> str:
    """A field that holds text. Raises BadRow."""
    if not isinstance(value, str):
        raise BadRow(f"{place} is {kind_of(value)}, not text", "write text in quotes", place)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            message = f"{place} holds half of a surrogate pair at character {error.start}, which is no text"
            raise BadRow(message, "write the character as UTF-8 or as both halves", place) from error
    return value


def list_field(value: Any, place: str, of: str) -> list[Any]:
    """A field that holds a list with something in it; JSON in text is decoded (tables keep lists so). Raises BadRow."""
    value = decoded(value, place, "[")
    if not isinstance(value, list) or not value:
        what = "an empty list" if value == [] else kind_of(value)
        raise BadRow(f"{place} is {what}, not a list of {of}", f"write a list of {of}", place)
    return cast(list[Any], value)


def object_field(value: Any, place: str, of: str) -> dict[str, Any]:
    """A field that holds an object. Raises BadRow."""
    if not isinstance(value, dict):
        raise BadRow(f"{place} is {kind_of(value)}, not an object with {of}", f"write an object with {of}", place)
    return cast(dict[str, Any], value)


def decoded(value: Any, place: str, opening: str) -> Any:
    """The value that a text holds as JSON, where it begins as such; any other value as it is. Raises BadRow."""
    if not isinstance(value, str) or not value.lstrip().startswith(opening):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"{place} holds text that is not JSON: {error}", "write valid JSON", place) from error
