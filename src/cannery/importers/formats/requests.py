"""Requests of any dialect: one body, an array, or one body per line; the dialect of each record is detected."""

from __future__ import annotations

from collections.abc import Iterator

from cannery.errors import InputError
from cannery.importers.bodies import request_of
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "requests"
# The fields with messages and instructions; the other fields of a body are stored as facts.
_SAID = ("messages", "contents", "input", "system", "systemInstruction", "system_instruction")


def detect(sample: Sample) -> Detection | None:
    """Bodies that a dialect accepts as requests, and nothing else."""
    told: dict[str, str] = {}
    for record in sample.objects:
        try:
            found, _ = request_of(record)
        except InputError:
            continue
        told.setdefault(found.dialect, found.reason)
    if not told or len(sample.objects) < len(sample.records):
        return None
    reasons = "; ".join(f"{dialect}: {reason}" for dialect, reason in told.items())
    return Detection(0.5, f"it holds requests of {reasons}")


def read(source: Source) -> Iterator[Found]:
    """One conversation per request."""
    for record, value in source.values():
        try:
            _, request = request_of(value)
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
            continue
        model = request.model if isinstance(request.model, str) else None
        canisters = with_fields(request.conversation, NAME, value, "model", *_SAID)
        yield Imported(source.place_of(record), (Node("request", None, canisters),), model=model)


FORMAT = Format(
    NAME,
    "requests of any dialect",
    detect,
    read,
    keys=("model", "messages", "contents", "input", "tools", "max_tokens"),
)
