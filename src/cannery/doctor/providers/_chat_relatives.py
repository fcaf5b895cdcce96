"""Shared checks of the APIs related to Chat: messages with roles, calls beside the text, results as messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cannery.doctor.contract import Broken, Judged, Object
from cannery.doctor.json_paths import at, objects, shown
from cannery.doctor.providers._chat_messages import messages_of
from cannery.doctor.providers._exchanges import CALL, RESULT, TURN, Event, Find
from cannery.doctor.shared import illegal_names, wrong_types
from cannery.wire.places import Path


def calls_of(path: Path, message: Object) -> list[tuple[Path, Object]]:
    """The calls of a message."""
    return objects(message.get("tool_calls"), (*path, "tool_calls"))


def no_model(judged: Judged) -> Iterator[Broken]:
    """A request without a model."""
    if not isinstance(judged.body.get("model"), str) or not judged.body["model"]:
        yield ("model",), "model is required"


def no_messages(judged: Judged) -> Iterator[Broken]:
    """A request without messages."""
    given = judged.body.get("messages")
    if not isinstance(given, list) or not given:
        yield ("messages",), "messages is required: a list of at least one"


def shapes(roles: tuple[str, ...], contents: tuple[type, ...]) -> Find:
    """Messages that are not objects, have another role, or have content of another type."""

    def find(judged: Judged) -> Iterator[Broken]:
        given = judged.body.get("messages")
        for index, message in enumerate(given if isinstance(given, list) else ()):
            path: Path = ("messages", index)
            if not isinstance(message, dict):
                yield path, f"a message is an object, not {shown(message)}"
                continue
            role = message.get("role")
            if role not in roles:
                yield (*path, "role"), f"the role is {shown(role)}, not one of {', '.join(roles)}"
            yield from wrong_types(message, {"content": contents, "tool_calls": (list,)}, path)
            yield from _parts(message, path)

    return find


def _parts(message: Object, path: Path) -> Iterator[Broken]:
    for key in ("content", "tool_calls"):
        held = message.get(key)
        for index, part in enumerate(held if isinstance(held, list) else ()):
            if not isinstance(part, dict):
                yield (*path, key, index), f"a part is an object, not {shown(part)}"
    for where, call in calls_of(path, message):
        if call.get("function") is not None and not isinstance(at(call, ("function", "name")), str):
            yield where, "a call needs a function with a name"


def events(judged: Judged) -> Iterator[Event]:
    """Calls and results in order; every other message is a turn."""
    for path, message in messages_of(judged):
        if message.get("role") == "tool":
            yield Event(RESULT, path, message.get("tool_call_id"))
            continue
        yield Event(TURN)
        if message.get("role") == "assistant":
            for where, call in calls_of(path, message):
                yield Event(CALL, where, call.get("id"))


def silent(*keys: str) -> Find:
    """Assistant messages with none of these fields."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, message in messages_of(judged):
            if message.get("role") == "assistant" and not any(message.get(key) for key in keys):
                yield path, f"an assistant message needs one of {', '.join(keys)}"

    return find


def functions_of(judged: Judged) -> list[tuple[Path, Object]]:
    """The functions offered."""
    tools = objects(judged.body.get("tools"), ("tools",))
    found = ((path, tool.get("function")) for path, tool in tools)
    return [((*path, "function"), held) for path, held in found if isinstance(held, dict)]


def names_of(judged: Judged) -> list[tuple[Path, Any]]:
    """The names of the functions offered, each with its path."""
    return [((*path, "name"), held.get("name")) for path, held in functions_of(judged)]


def broken_tools(judged: Judged) -> Iterator[Broken]:
    """Tools that are not objects, and functions without a name."""
    given = judged.body.get("tools")
    if given is not None and not isinstance(given, list):
        yield ("tools",), f"tools is a list, not {shown(given)}"
    for index, tool in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(tool, dict):
            yield ("tools", index), f"a tool is an object, not {shown(tool)}"
        elif tool.get("function") is not None and not isinstance(
            at(tool, ("function", "name")), str
        ):
            yield ("tools", index), "a function needs a name"


def call_names(pattern: Any) -> Find:
    """Names of called and offered functions that do not match a pattern."""

    def find(judged: Judged) -> Iterator[Broken]:
        named = names_of(judged)
        for path, message in messages_of(judged):
            for where, call in calls_of(path, message):
                function = call.get("function")
                if isinstance(function, dict):
                    named.append(((*where, "function", "name"), function.get("name")))
        yield from illegal_names(((p, n) for p, n in named if isinstance(n, str)), pattern)

    return find


def too_many(limits: Mapping[str, int]) -> Callable[[Judged], Iterator[Broken]]:
    """Lists that are longer than the API allows."""

    def find(judged: Judged) -> Iterator[Broken]:
        for key, limit in limits.items():
            held = judged.body.get(key)
            if isinstance(held, list) and len(held) > limit:
                yield (key,), f"{key} has {len(held)} items; {limit} are allowed"

    return find
