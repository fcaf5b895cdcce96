"""Settings with the same spelling in OpenAI's two dialects: output format, effort, metadata, custom formats.

Chat Completions nests fields that Responses keeps flat; the inner objects are the same.
"""

from __future__ import annotations

import re
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Thinking,
    Tool,
    new_output_format,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import EFFORTS, FORMAT_NAME, effort_of, field_of, flag, put, text
from cannery.wire.losses import Report
from cannery.wire.metadata import fit_metadata
from cannery.wire.residues import keep_unusual, nested, set_again, setting
from cannery.wire.settings import Writing

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_SYNTAXES = ("lark", "regex")
# The longest keys and values of metadata (openai 3.49.0, ``metadata`` of both APIs).
_LONGEST_KEY, _LONGEST_VALUE = 64, 512
# The dialects whose servers enforce the same schemas.
SIBLINGS = ("openai_chat", "openai_responses")
# The words for hidden thoughts, which are the default of OpenAI's dialects.
UNSHOWN = frozenset({"omitted", "none"})


def take_output(value: Any, field: str | None = None) -> tuple[Any, Object | None]:
    """The output format, taken out of its object, and the patch of the rest; absent if it is not a format."""
    if type(value) is not dict:
        return absent, None
    kind = value.get("type")
    word = {"text": "text", "json_object": "json"}.get(kind) if type(kind) is str else None
    if word is not None:
        del value["type"]
        return new_output_format(word), set_again(value)
    schema = value if field is None else value.get(field)
    if kind != "json_schema" or type(schema) is not dict:
        return absent, None
    del value["type"]
    if field is not None:
        del value[field]
    found, patch = _take_schema(schema, is_flat=field is None)
    return found, patch if field is None else nested(value, {field: patch})


def _take_schema(schema: Object, *, is_flat: bool) -> tuple[OutputFormat, Object | None]:
    name, given = text(schema.get("name")), schema.get("schema")
    written: Object = {}
    keep_unusual(schema, "name", _legal_name(name), written)
    if type(given) is dict:
        del schema["schema"]
    elif is_flat:
        written["schema"] = {}
    description, strict = text(schema.get("description")), flag(schema.get("strict"))
    if description is not absent:
        del schema["description"]
    if strict is not absent:
        del schema["strict"]
    spelled = write_json(given) if type(given) is dict else absent
    output = new_output_format("schema", spelled, name, description, strict)
    return output, setting(schema, {}, written)


def _legal_name(name: Any) -> str:
    """The name of a format with only the characters that the server accepts."""
    legal = "" if name is absent else _NOT_IN_NAMES.sub("_", name)[:64]
    return legal or FORMAT_NAME


def write_output(output: OutputFormat, field: str | None = None) -> Object:
    """The output format in the usual form; a name has only characters that the server accepts."""
    if output.kind != "schema":
        return {"type": "text" if output.kind == "text" else "json_object"}
    schema: Object = {"name": _legal_name(output.name)}
    put(schema, "description", output.description)
    if field is None or isinstance(output.schema, str):
        schema["schema"] = decode_json(output.schema) if isinstance(output.schema, str) else {}
    put(schema, "strict", output.strict)
    return {"type": "json_schema", **(schema if field is None else {field: schema})}


def write_effort(thinking: Thinking, to: Writing) -> Any:
    """The effort word, or absent and a loss if thinking was only switched on."""
    if thinking.enabled is False or thinking.budget == 0:
        if thinking.effort not in (absent, "none"):
            to.drop("thinking that is off takes no effort", "effort")
        return "none"
    if isinstance(thinking.effort, str):
        if thinking.budget is not absent:
            to.drop("beside an effort there is no token budget", "budget")
        if to.is_same or thinking.effort in EFFORTS:
            return thinking.effort
        to.change(f"no effort {thinking.effort!r} here", "effort")
        return "medium"
    if isinstance(thinking.budget, int) and thinking.budget > 0:
        to.change("a token budget became an effort", "budget")
        return effort_of(thinking.budget)
    if thinking.enabled is True or thinking.adaptive or thinking.budget is not absent:
        to.drop("OpenAI has no switch for thinking")
    return absent


METADATA = fit_metadata(
    lambda key: len(key) <= _LONGEST_KEY,
    lambda item: len(item) <= _LONGEST_VALUE,
    f"metadata are 16 texts of {_LONGEST_VALUE} characters, with keys of {_LONGEST_KEY}",
)


def legal_format(tool: Tool, report: Report, place: str) -> Any:
    """The format of a foreign custom tool in the form a server accepts, flat; absent if it has none."""
    if not isinstance(tool.grammar, str):
        return absent
    given: Object = decode_json(tool.grammar)
    within = field_of(tool, report, "format")
    syntax, definition = given.get("syntax"), given.get("definition")
    legal: Object | None = None
    if given.get("type") == "text":
        legal = {"type": "text"}
    elif syntax in _SYNTAXES and type(definition) is str:
        legal = {"type": "grammar", "syntax": syntax, "definition": definition}
    if legal is None:
        detail = "a format is text, or a grammar in lark or regex"
        report.lose("FIELD_DROPPED", place, detail, within)
        return absent
    for key in [key for key in given if key not in legal]:
        detail = f"{key!r} is known only to its own dialect"
        report.lose("FIELD_DROPPED", place, detail, within)
    return legal
