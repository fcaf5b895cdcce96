"""Settings of the Chat Completions shape: the forms shared by its relatives, and the tool choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cannery.families.openai.settings import take_output, write_effort, write_output
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    ToolChoice,
    new_output_format,
    new_thinking,
    new_tool_choice,
)
from cannery.wire.bodies import Object
from cannery.wire.residues import keep_unusual, nested, own_residue, set_again, setting
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
from cannery.wire.settings import TEXTS, Form, Writing


def _read_stop(value: Any, reading: Reading) -> Said:
    if type(value) is str:
        return (value,), Spelled([value])
    return TEXTS.read(value, reading)  # type: ignore[misc]


# Stop sequences, a list or one string.
STOP = Form(read=_read_stop, write=TEXTS.write)
# The form of an output whose schema stands beside ``json_object``.
_BESIDE = "json_object_schema"


def _read_output(value: Any, reading: Reading) -> Said:
    is_json = type(value) is dict and value.get("type") == "json_object"
    if not is_json or type(value.get("schema")) is not dict:
        return take_output(value, "json_schema")
    # Together, Fireworks and llama.cpp enforce a schema in this form (docs.together.ai, docs.fireworks.ai, 2026-11-19).
    del value["type"]
    reading.form.append(_BESIDE)
    return new_output_format("schema", write_json(value.pop("schema"))), set_again(value)


def output_form(dialect: str) -> Form:
    """The format of the output, as JSON with a schema beside it or with a schema that has a name."""

    def write(output: OutputFormat, to: Writing) -> Object:
        if type(output.schema) is str and is_spelled(to.request, dialect, _BESIDE):
            return {"type": "json_object", "schema": decode_json(output.schema)}
        return write_output(output, "json_schema")

    return Form(read=_read_output, write=write)


def is_spelled(request: Request, dialect: str, word: str) -> bool:
    """Whether a word in the form of a request records how a dialect spelled something."""
    residue = own_residue(request, dialect)
    return residue is not None and word in (residue.form or "").split()


def effort_form(shown: Iterable[Any], detail: str) -> Form:
    """Thinking as an effort word; ``detail`` is reported for summaries, except those that a server always gives."""
    usual = (absent, *shown)

    def write(thinking: Thinking, to: Writing) -> Any:
        effort = write_effort(thinking, to)
        if thinking.summary not in usual:
            to.drop(detail, "summary")
        return effort

    return Form(
        read=lambda value, _: (
            (new_thinking(effort=value), None) if type(value) is str else NOT_READ
        ),
        write=write,
    )


# --- tool choice ---------------------------------------------------------------------------------


def choice_form(words: Mapping[str, str], write: Callable[[Any, Writing], Any]) -> Form:
    """The tool choice, by the words for its modes."""
    return Form(read=lambda value, _: take_choice(value, words), write=write)


def take_choice(choice: Any, words: Mapping[str, str]) -> Said:
    """The tool choice: the word for its mode, or the tool that it names."""
    if type(choice) is str:
        mode = words.get(choice)
        if mode is None:
            return NOT_READ
        usual = next(word for word, each in words.items() if each == mode)
        return new_tool_choice(mode), None if usual == choice else Spelled(usual)
    if type(choice) is not dict:
        return NOT_READ
    allowed = choice.get("allowed_tools") if choice.get("type") == "allowed_tools" else None
    if type(allowed) is dict:
        return _read_allowed(choice, allowed)
    name, is_freeform, patch = _take_named(choice)
    if name is None:
        return NOT_READ
    return new_tool_choice("named", (name,), is_freeform=is_freeform), patch


def _take_named(tool: Object) -> tuple[str | None, bool, Object | None]:
    """The name of a chosen tool, whether it takes free text, and the patch of the rest."""
    name, is_freeform = _chosen(tool)
    if name is None:
        return None, False, None
    kind = "custom" if is_freeform else "function"
    written: Object = {}
    keep_unusual(tool, "type", kind, written)
    inner = tool.get(kind)
    if type(inner) is not dict or inner.get("name") != name:
        # The name is one level higher, as in Responses.
        written[kind] = {"name": name}
        return name, is_freeform, setting(tool, {}, written)
    del inner["name"], tool[kind]
    return name, is_freeform, setting(tool, {kind: set_again(inner)}, written)


def _chosen(choice: Object) -> tuple[str | None, bool]:
    kind = choice.get("type", "function")
    inner = choice.get(kind, choice) if type(kind) is str else choice
    name = inner.get("name") if type(inner) is dict else None
    return (name if type(name) is str else None), kind == "custom"


def _read_allowed(choice: Object, allowed: Object) -> Said:
    tools = allowed.get("tools")
    if type(tools) is not list or not tools:
        return NOT_READ
    if not all(type(tool) is dict and _chosen(tool)[0] is not None for tool in tools):
        return NOT_READ
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


def tool_names(body: Object) -> Iterator[str]:
    """The names of the tools of a body."""
    return (str(_chosen(tool)[0]) for tool in body.get("tools", ()))
