"""OpenAI fine-tuning files: lines of ``{"messages": […]}`` without a model."""

from __future__ import annotations

from collections.abc import Iterator

from cannery.errors import InputError
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import objects, row_digest, spoken_by, unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "openai_finetuning"
_KEYS = {"messages", "tools", "functions", "parallel_tool_calls"}
# The keys of an answer; a message has at least one of them.
_ENDINGS = ("content", "tool_calls", "function_call", "refusal")


def detect(sample: Sample) -> Detection | None:
    """Records of messages and tools and nothing else."""
    rows = [record for record in sample.objects if "messages" in record]
    for record in rows:
        messages = objects(record.get("messages"))
        if not record.keys() <= _KEYS or not messages or not all(map(_is_message, messages)):
            return None
    if not rows:
        return None
    return Detection(0.6, "its records are lists of messages and name no model")


def _is_message(message: dict[str, object]) -> bool:
    return isinstance(message.get("role"), str) and any(key in message for key in _ENDINGS)


def read(source: Source) -> Iterator[Found]:
    """One conversation per record."""
    for record, value in source.values():
        try:
            canisters = with_fields(spoken_by(NAME, value, None), NAME, value, "messages")
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
            continue
        nodes = (Node("example", None, canisters),)
        yield Imported(source.place_of(record), nodes, row=row_digest(value))


FORMAT = Format(
    NAME,
    "OpenAI fine-tuning file",
    detect,
    read,
    is_data_set=True,
    keys=("messages", "role", "content"),
)
