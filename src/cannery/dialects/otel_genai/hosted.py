"""Hosted tools in the OpenTelemetry conventions: ``server_tool_call`` and ``server_tool_call_response`` parts.

The schemas give both an object of details with a type, and leave open what else is in it. A block of another dialect is
such an object as it stands, so that it comes back to the letter; of what other programs write, the usual words are read
(the chat client of Microsoft.Extensions.AI and the instrumentations of OpenTelemetry, read 2026-11-19).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cannery.messages.hosted import (
    FAILED,
    CodeExecution,
    Fetch,
    FileQuery,
    HostedCall,
    HostedResult,
    HostedUse,
    McpCall,
    Output,
    Run,
    Search,
    Source,
    Sources,
    WebFetch,
    WebSearch,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.wire.arguments import argument_text
from cannery.wire.bodies import Object
from cannery.wire.hosted import HostedTable, Outcome, Tagged, Told, ToolRow, take_text

CALL, RESPONSE = "server_tool_call", "server_tool_call_response"
# The dialect of a block, its tag, and whether the block itself names no type.
BLOCK = "cannery.block"
_IDS = ("id", "tool_use_id", "call_id")
_SEARCHES = ("web_search", "web_search_preview", "web_search_call", "google_search")
_FETCHES = ("web_fetch", "url_context")
_RUNS = ("code_interpreter", "code_interpreter_call", "code_execution")
_SERVERS = ("mcp", "mcp_call", "mcp_tool_use")
_FILES = ("file_search", "file_search_call")
# Fields of details in which what was asked stands, and what came of it.
_ASKED = ("arguments", "input", "action")
_CAME = ("output", "outputs", "result", "results", "response", "content")


# --- blocks of other dialects --------------------------------------------------------------------


def keep_block(is_call: bool, dialect: str, tag: str, value: Any) -> Object | None:  # noqa: FBT001 - which of two parts it is
    """A block as a part; None where it cannot be the details of one."""
    if type(value) is not dict or type(value.get("type", tag)) is not str:
        return None
    kind, block = (CALL if is_call else RESPONSE), {"dialect": dialect, "tag": tag}
    part: Object = {"type": kind}
    identifier = next((value[key] for key in _IDS if type(value.get(key)) is str), None)
    if identifier is not None:
        part["id"] = identifier
    if is_call:
        part["name"] = value["name"] if type(value.get("name")) is str else tag
    if "type" in value:
        return {**part, kind: value, BLOCK: block}
    return {**part, kind: {"type": tag, **value}, BLOCK: {**block, "is_untyped": True}}


def kept_block(part: Object) -> tuple[str, str, Object] | None:
    """The dialect, the tag and the value of a block that is kept as a part; None if it was written otherwise."""
    kind, details = part["type"], part.get(part["type"])
    match part.get(BLOCK):
        case {"dialect": str(dialect), "tag": str(tag), **others} if type(details) is dict:
            untyped = {key: held for key, held in details.items() if key != "type"}
            value = untyped if others else details
            again = keep_block(kind == CALL, dialect, tag, value)
            told = {key: part[key] for key in ("type", "id", "name", kind, BLOCK) if key in part}
            return (dialect, tag, value) if again == told else None
    return None


# --- parts of other programs ---------------------------------------------------------------------


def _read_block(tag: str, part: Object) -> Told | None:
    details = part.get(tag)
    kind = details.get("type") if type(details) is dict else None
    if type(details) is not dict or type(kind) is not str:
        return None
    identifier = take_text(part, "id") or ""
    if tag == RESPONSE:
        failed = details.get("is_error") is True
        error = take_text(details, "error") or (FAILED if failed else None)
        outcome = Outcome(identifier, _read_result(details), error)
        _leave_names(part, details, "is_error")
        return outcome
    call = _read_call(kind, part, details)
    if call is not None:
        _leave_names(part, details)
    return None if call is None else HostedUse(identifier, call)


def _leave_names(part: Object, details: Object, *more: str) -> None:
    """Take what is said by the kind of a use."""
    for key in ("type", "name"):
        part.pop(key, None)
    for key in ("type", "status", *more):
        details.pop(key, None)


def _read_call(kind: str, part: Object, details: Object) -> HostedCall | None:
    asked, where = details, next((key for key in _ASKED if details.get(key)), None)
    if kind in _SERVERS:
        server = take_text(details, "server_name") or take_text(details, "server_label")
        name = take_text(part, "name") or take_text(details, "name")
        arguments = argument_text(details.pop(where)) if where else ""
        return McpCall(server or "", name, arguments) if name else None
    if where is not None:
        given = details[where]
        asked = details[where] = _object(given) if type(given) is str else given
    if type(asked) is not dict:
        return None
    if kind in _SEARCHES:
        return Search(_texts(asked, "queries", "query"))
    if kind in _FETCHES:
        return Fetch(_texts(asked, "urls", "url"), take_text(asked, "pattern"))
    if kind in _FILES:
        return FileQuery(_texts(asked, "queries", "query"))
    code = take_text(asked, "code") if kind in _RUNS else None
    return None if code is None else Run(code, take_text(asked, "language") or "python")


def _object(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return text


def _texts(holder: Object, *keys: str) -> tuple[str, ...]:
    """Take the texts of the first key that has some."""
    for key in keys:
        held = holder.get(key)
        found = held if type(held) is list else [held]
        if held and all(type(item) is str for item in found):
            del holder[key]
            return (*found,)
    return ()


def _read_result(details: Object) -> HostedResult | None:
    key = next((key for key in _CAME if details.get(key) not in (None, "", [])), None)
    if key is None:
        return None
    came = details.pop(key)
    items = came if type(came) is list else [came]
    if all(type(item) is dict and type(item.get("url")) is str for item in items):
        return Sources(tuple(map(_source, items)))
    words = [_words(item) for item in items]
    return Output("".join(words))


def _source(item: Object) -> Source:
    title, said = (item.get(key) for key in ("title", "text"))
    return Source(
        item["url"], title if type(title) is str else None, said if type(said) is str else None
    )


def _words(item: Any) -> str:
    """What a result says: its text, or its JSON."""
    held = item.get("text", item.get("content")) if type(item) is dict else item
    return held if type(held) is str else write_json(item)


def _split(tool: Object) -> Iterable[Tagged]:
    """A definition that names its type; what it is called says no more."""
    tag, _ = tool.pop("type", None), tool.pop("name", None)
    yield (tag if type(tag) is str else ""), tool, ""


HOSTED = HostedTable(
    rows=(
        ToolRow(WebSearch, _SEARCHES),
        ToolRow(WebFetch, _FETCHES),
        ToolRow(CodeExecution, _RUNS),
    ),
    split=_split,
    read_block=_read_block,
    keep_block=keep_block,
    pairs=frozenset({CALL}),
)
