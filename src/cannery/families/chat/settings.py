"""Settings of the Chat Completions shape: how a table of a dialect's fields is read, and what most of them share.

A setting that is understood is taken; what is left, at any level, is the residue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from cannery.families.openai.settings import take_output
from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    Request,
    ToolChoice,
    new_controls,
    new_thinking,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.places import Places
from cannery.wire.residues import keep_unusual, nested, set_again, setting

NUMBER, WHOLE, FLAG, WORDS = (int, float), (int,), (bool,), (str,)


class Spelled(Struct, frozen=True):
    """A setting that is understood and kept to the letter, since it is not written in this way but as ``written``."""

    written: Any


# What a setting says, and the patch of its spelling.
Read = tuple[Any, Object | Spelled | None]


class Settings(Struct):
    """The settings of a request as they were read."""

    model: Any = absent
    stream: Any = absent
    tool_choice: Any = absent
    controls: Controls = DEFAULT_CONTROLS
    residue: Residue | None = None


class Unread(Struct):
    """What is being read of the settings: the fields that are left, what was found, and how it was spelled."""

    left: Object
    found: Settings
    controls: Object
    places: Places
    patches: Object
    form: list[str]
    written: Object

    def take(self, key: str, said: Any, patch: Object | Spelled | None) -> None:
        """Take a field out of what is left, unless it has to be kept to the letter."""
        if said is absent:
            return
        if type(patch) is Spelled:
            self.written[key] = patch.written
        else:
            del self.left[key]
            self.patches[key] = patch


class SettingTable(Struct, frozen=True):
    """The fields of a dialect: those that are one value, by the control and its types; those that take a closer look.

    ``first`` reads what depends on more than one field.
    """

    dialect: str
    plain: Mapping[str, tuple[str, tuple[type, ...]]]
    others: Mapping[str, tuple[str, Callable[[Any], Read]]]
    first: Callable[[Unread], None]


def read_settings(table: SettingTable, body: Object, places: Places) -> Settings:
    """All fields of a request but its messages and tools; what is not understood becomes the residue."""
    found = Settings()
    controls: Object = {}
    left: Object = {}
    plain = table.plain
    for key, value in body.items():
        row = plain.get(key)
        if row is not None and type(value) in row[1]:
            controls[row[0]] = value
        elif key == "model" and type(value) is str:
            found.model = value
        elif key == "stream" and type(value) is bool:
            found.stream = value
        else:
            left[key] = value
    if left:
        _read_rest(table, Unread(left, found, controls, places, {}, [], {}))
    if controls:
        found.controls = new_controls(**controls)
    return found


def _read_rest(table: SettingTable, unread: Unread) -> None:
    """The settings that take more than one look; each is taken out of ``left``, or stays there."""
    left = unread.left
    table.first(unread)
    for key in [key for key in left if key in table.others]:
        control, read = table.others[key]
        said, patch = read(left[key])
        if said is not absent:
            unread.controls[control] = said
            unread.take(key, said, patch)
    envelope = setting(left, unread.patches, unread.written)
    form = unread.form
    if envelope is not None or form:
        text = None if envelope is None else write_json(envelope)
        unread.found.residue = Residue(table.dialect, None, text, " ".join(form) or None)


def read_stop(value: Any) -> Read:
    """Stop sequences, a list or one string."""
    if type(value) is str:
        return (value,), Spelled([value])
    if type(value) is list and value and all(type(item) is str for item in value):
        return tuple(value), None
    return absent, None


def read_effort(value: Any) -> Read:
    """An effort word."""
    return (new_thinking(effort=value) if type(value) is str else absent), None


def read_metadata(value: Any) -> Read:
    """Metadata, if there are any."""
    return (write_json(value) if type(value) is dict and value else absent), None


def read_format(value: Any) -> Read:
    """The output format."""
    return take_output(value, "json_schema")


# --- tool choice ---------------------------------------------------------------------------------


def take_choice(choice: Any, words: Mapping[str, str]) -> Read:
    """The tool choice, by the words for its modes, or the tool that it names."""
    if type(choice) is str:
        mode = words.get(choice)
        if mode is None:
            return absent, None
        usual = next(word for word, each in words.items() if each == mode)
        return new_tool_choice(mode), None if usual == choice else Spelled(usual)
    if type(choice) is not dict:
        return absent, None
    allowed = choice.get("allowed_tools") if choice.get("type") == "allowed_tools" else None
    if type(allowed) is dict:
        return _read_allowed(choice, allowed)
    name, is_freeform, patch = _take_named(choice)
    if name is None:
        return absent, None
    return new_tool_choice("named", (name,), is_freeform=is_freeform), patch


def _take_named(tool: Object) -> tuple[str | None, bool, Object | None]:
    """The name of a tool that is chosen, whether it takes free text, and the patch of what is left."""
    name, is_freeform = _chosen(tool)
    if name is None:
        return None, False, None
    kind = "custom" if is_freeform else "function"
    written: Object = {}
    keep_unusual(tool, "type", kind, written)
    inner = tool.get(kind)
    if type(inner) is not dict or inner.get("name") != name:
        # The name stands a level higher, as in Responses.
        written[kind] = {"name": name}
        return name, is_freeform, setting(tool, {}, written)
    del inner["name"], tool[kind]
    return name, is_freeform, setting(tool, {kind: set_again(inner)}, written)


def _chosen(choice: Object) -> tuple[str | None, bool]:
    kind = choice.get("type", "function")
    inner = choice.get(kind, choice) if type(kind) is str else choice
    name = inner.get("name") if type(inner) is dict else None
    return (name if type(name) is str else None), kind == "custom"


def _read_allowed(choice: Object, allowed: Object) -> tuple[Any, Object | None]:
    tools = allowed.get("tools")
    if type(tools) is not list or not tools:
        return absent, None
    if not all(type(tool) is dict and _chosen(tool)[0] is not None for tool in tools):
        return absent, None
    must_call = allowed.get("mode") == "required"
    read = [_take_named(tool) for tool in tools]
    patches = {str(index): patch for index, (_, _, patch) in enumerate(read) if patch is not None}
    written: Object = {}
    keep_unusual(allowed, "mode", "required" if must_call else "auto", written)
    del allowed["tools"], choice["allowed_tools"], choice["type"]
    inner = setting(allowed, {"tools": {"i": patches} if patches else None}, written)
    names = tuple(str(name) for name, _, _ in read)
    return new_tool_choice("allowed", names, must_call), nested(choice, {"allowed_tools": inner})


def named_tools(choice: ToolChoice, request: Request) -> list[Object]:
    """The tools that a choice names."""
    freeform = {tool.name for tool in request.tools if tool.is_freeform}
    kinds = (
        "custom" if choice.is_freeform or name in freeform else "function" for name in choice.names
    )
    return [
        {"type": kind, kind: {"name": name}} for kind, name in zip(kinds, choice.names, strict=True)
    ]


def tool_names(tools: Iterable[Object]) -> list[str]:
    """The names of the tools of a body."""
    return [str(_chosen(tool)[0]) for tool in tools]
