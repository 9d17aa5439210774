"""Conversations as people write them, in the one shape that chat templates take: role, content, tool_calls."""

from typing import Any, cast

from horizon_app.data.errors import BadRow
from horizon_app.data.fields import decoded, list_field, object_field, text_field
from horizon_app.data.records import kind_of
from horizon_app.data.rows import Message

ASSISTANT = "assistant"
_ROLES = ("system", "developer", "user", ASSISTANT, "tool", "function")
_TURN = "role and content"
_SPEAKERS = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": ASSISTANT,
    "assistant": ASSISTANT,
    "model": ASSISTANT,
    "chatgpt": ASSISTANT,
    "bing": ASSISTANT,
    "bard": ASSISTANT,
    "function_call": ASSISTANT,
    "tool": "tool",
    "observation": "tool",
}


def openai_messages(value: Any, place: str, *, may_end_open: bool = False) -> list[Message]:
    """The messages of OpenAI's shape; `may_end_open` takes an empty list too. Raises BadRow."""
    if may_end_open and value == []:
        return []
    return [_message(turn, f"{place}[{i}]") for i, turn in enumerate(list_field(value, place, "messages"))]


def sharegpt_messages(value: Any, system: Any) -> list[Message]:
    """The messages of ShareGPT's shape: from and value, the system text among them or beside. Raises BadRow."""
    turns = list_field(value, "conversations", "turns")
    return _system(system) + [_turn(turn, f"conversations[{i}]") for i, turn in enumerate(turns)]


def alpaca_messages(row: dict[str, Any]) -> list[Message]:
    """An instruction with its input as the user's words, the output as the answer. Raises BadRow."""
    asked = text_field(row["instruction"], "instruction")
    given = row.get("input")
    more = "" if given is None else text_field(given, "input")
    messages = _system(row.get("system"))
    history = decoded(row.get("history") or [], "history", "[")
    if not isinstance(history, list):
        raise BadRow(f"history is {kind_of(history)}, not a list", "write pairs of texts", "history")
    for index, pair in enumerate(cast(list[Any], history)):
        place = f"history[{index}]"
        both = list_field(pair, place, "two texts")
        if len(both) != len(("question", "answer")):
            raise BadRow(f"{place} has {len(both)} entries, not two texts", "write [question, answer]", place)
        messages += [
            {"role": role, "content": text_field(text, place)}
            for role, text in zip(("user", ASSISTANT), both, strict=True)
        ]
    question = "\n\n".join(part for part in (asked, more) if part)
    answer = text_field(row["output"], "output")
    return [*messages, {"role": "user", "content": question}, {"role": ASSISTANT, "content": answer}]


def tool_list(value: Any) -> list[dict[str, Any]] | None:
    """The descriptions of the tools that a row offers; None for none. Raises BadRow."""
    tools = decoded(value, "tools", "[")
    if tools in (None, "", []):
        return None
    return [object_field(tool, f"tools[{i}]", "a name") for i, tool in enumerate(list_field(tools, "tools", "tools"))]


def _system(value: Any) -> list[Message]:
    return [{"role": "system", "content": text_field(value, "system")}] if value not in (None, "") else []


def _message(value: Any, place: str) -> Message:
    given = object_field(value, place, _TURN)
    message = {key: field for key, field in given.items() if field is not None}
    if "role" not in given:
        raise BadRow(f"{place}.role is missing", "write a role and content in each message", f"{place}.role")
    role = text_field(given["role"], f"{place}.role")
    if role not in _ROLES:
        raise BadRow(f"{place}.role is {role!r}", f"the roles are {', '.join(_ROLES)}", f"{place}.role")
    calls = _calls(message.pop("tool_calls", None), place)
    if calls:
        message["tool_calls"] = calls
    if "content" not in given and not calls:
        raise BadRow(f"{place}.content is missing", "write content in each message", f"{place}.content")
    message["content"] = (
        "" if calls and given.get("content") is None else _content(given["content"], f"{place}.content")
    )
    return message


def _content(value: Any, place: str) -> str:
    """Text, or parts of text joined: templates of text models print a list as Python would. Raises BadRow."""
    if not isinstance(value, list):
        return text_field(value, place)
    texts: list[str] = []
    for index, part in enumerate(cast(list[Any], value)):
        where = f"{place}[{index}]"
        kind = object_field(part, where, "type and text").get("type", "text")
        if kind != "text":
            message = f"{where} is of the type {kind}, and only text is trained"
            raise BadRow(message, "remove the part, or the row", place)
        texts.append(text_field(part.get("text"), f"{where}.text"))
    return "".join(texts)


def _calls(value: Any, place: str) -> list[dict[str, Any]]:
    """Tool calls with their arguments as an object, which is what templates ask for. Raises BadRow."""
    where = f"{place}.tool_calls"
    value = decoded(value, where, "[")
    if value in (None, []):
        return []
    calls: list[dict[str, Any]] = []
    for index, item in enumerate(list_field(value, where, "tool calls")):
        at = f"{where}[{index}]"
        call = dict(object_field(item, at, "a function"))
        function = dict(object_field(call.get("function"), f"{at}.function", "name and arguments"))
        text_field(function.get("name"), f"{at}.function.name")
        function["arguments"] = _arguments(function.get("arguments"), f"{at}.function.arguments")
        calls.append({**call, "function": function})
    return calls


def _arguments(value: Any, place: str) -> dict[str, Any]:
    if value in (None, ""):
        return {}
    return object_field(decoded(value, place, "{"), place, "the arguments")


def _turn(value: Any, place: str) -> Message:
    given = object_field(value, place, "from and value")
    if "from" not in given and "role" in given:
        return _message(value, place)
    for key in ("from", "value"):
        if key not in given:
            raise BadRow(f"{place}.{key} is missing", "write from and value in each turn", f"{place}.{key}")
    speaker = text_field(given["from"], f"{place}.from")
    if speaker not in _SPEAKERS:
        raise BadRow(f"{place}.from is {speaker!r}", f"the speakers are {', '.join(_SPEAKERS)}", f"{place}.from")
    if speaker == "function_call":
        return {"role": ASSISTANT, "content": "", "tool_calls": _function_call(given["value"], f"{place}.value")}
    return {"role": _SPEAKERS[speaker], "content": _content(given["value"], f"{place}.value")}


def _function_call(value: Any, place: str) -> list[dict[str, Any]]:
    """ShareGPT keeps a call as JSON text of a name and arguments, or of a list of them."""
    found = decoded(decoded(value, place, "{"), place, "[")
    calls = cast(list[Any], found) if isinstance(found, list) else [found]
    return _calls([{"type": "function", "function": call} for call in calls], place)
