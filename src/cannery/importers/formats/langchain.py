"""LangChain messages as JSON: ``messages_to_dict`` (``{type, data}``), ``dumps`` (``{lc, id, kwargs}``), plain fields.

A list of messages is a conversation; so are the messages of a file of lines. Seen with langchain-core 1.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cannery.importers.api_messages import Turn, read_usage
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.drafts import Draft
from cannery.importers.pieces import objects, text_of, unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.importers.values import Record
from cannery.messages import AnyCanister

NAME = "langchain"
_ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "user",
    "function": "user",
}
_TAKEN = ("type", "content", "tool_calls", "tool_call_id", "usage_metadata", "id", "name")


def detect(sample: Sample) -> Detection | None:
    """Messages with a known type and a content."""
    records = [each for record in sample.records for each in _listed(record)]
    fields = [_fields(record) for record in records]
    if fields and all(_is_message(each) for each in fields):
        kinds = sorted({each["type"] for each in fields})
        return Detection(0.8, f"it is a list of messages of the types {', '.join(kinds)}")
    return None


def _listed(record: Any) -> list[Any]:
    return record if isinstance(record, list) else [record]


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a message, without its wrapper."""
    if not isinstance(record, dict):
        return {}
    for key in ("data", "kwargs"):
        if isinstance(record.get(key), dict):
            kind = record["type"] if key == "data" else record[key].get("type")
            return {**record[key], "type": kind}
    return record


def _is_message(fields: dict[str, Any]) -> bool:
    is_said = isinstance(fields.get("content"), (str, list))
    return isinstance(fields.get("type"), str) and fields["type"] in _ROLES and is_said


def read(source: Source) -> Iterator[Found]:
    """One conversation per list, or for all lines."""

    def which(found: tuple[Record, Any]) -> int:
        record, value = found
        return -1 - record.group if isinstance(value, list) else record.group * record.is_item

    for _, found in groupby(source.values(), which):
        together = list(found)
        for record, value in together if isinstance(together[0][1], list) else ():
            yield from _chat(value, source.place_of(record))
        if not isinstance(together[0][1], list):
            yield from _chat([value for _, value in together], source.name)


def _chat(messages: list[Any], place: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    model: str | None = None
    for number, message in enumerate(messages):
        fields = _fields(message)
        if not _is_message(fields):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", message, above)
            continue
        told = fields.get("response_metadata")
        told = told if isinstance(told, dict) else {}
        model = text_of(told.get("model_name")) or text_of(told.get("model")) or model
        turns.append((f"#{number}", _canisters(fields, model, unknown)))
    yield Imported(place, linear(turns), model=model, unknown=dict(unknown))


def _canisters(
    fields: dict[str, Any], model: str | None, unknown: Counter[str]
) -> tuple[AnyCanister, ...]:
    role = _ROLES[fields["type"]]
    draft = Draft(NAME, role, None, unknown)
    content = fields["content"]
    if fields["type"] in ("tool", "function"):
        failed = fields.get("status") == "error"
        draft.answer(fields.get("tool_call_id") or fields.get("name"), content, failed=failed)
    else:
        for part in content if isinstance(content, list) else [content]:
            # Calls are also among the parts, in the spelling of their provider.
            if not isinstance(part, dict) or part.get("type") not in ("tool_use", "tool_call"):
                draft.part(part)
        for call in objects(fields.get("tool_calls")):
            draft.call(call.get("id"), call.get("name"), call.get("args"))
    made_by = model if role == "assistant" else None
    said = draft.done(model=made_by, usage=read_usage(fields.get("usage_metadata")))
    rest = {key: value for key, value in fields.items() if value not in ({}, [], "", None)}
    return with_fields(said, NAME, rest, *_TAKEN)


FORMAT = Format(
    NAME,
    "LangChain messages",
    detect,
    read,
    keys=("type", "data", "content", "additional_kwargs", "response_metadata", "lc", "kwargs"),
)
