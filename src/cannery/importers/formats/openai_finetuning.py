"""OpenAI fine-tuning files: lines of ``{"messages": […]}`` without a model."""

from __future__ import annotations

from collections.abc import Iterator

from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import objects, spoken_by, unknown_record
from cannery.importers.sources import Source

NAME = "openai_finetuning"
_KEYS = {"messages", "tools", "functions", "parallel_tool_calls"}


def detect(sample: Sample) -> Detection | None:
    """Records of messages and tools and nothing else."""
    for record in sample.objects:
        messages = objects(record.get("messages"))
        if messages and record.keys() <= _KEYS and all("role" in message for message in messages):
            return Detection(0.6, "it has messages and names no model")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a record."""
    for record, value in source.values():
        try:
            canisters = tuple(spoken_by(NAME, value, None))
        except InputError as error:
            yield unknown_record("unreadable", f"{record.place}: {error}", value)
            continue
        yield Imported(source.place_of(record), (Node("example", None, canisters),))


FORMAT = Format(NAME, "OpenAI fine-tuning file", detect, read)
