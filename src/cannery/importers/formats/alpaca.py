"""Alpaca data sets: an array or lines of ``{"instruction", "input", "output"}``."""

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
from cannery.importers.pieces import row_digest, spoken_by, unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "alpaca"
_TAKEN = ("instruction", "input", "output", "system", "history")


def detect(sample: Sample) -> Detection | None:
    """An instruction with an output."""
    for record in sample.objects:
        if isinstance(record.get("instruction"), str) and isinstance(record.get("output"), str):
            return Detection(0.95, "its records have an instruction and an output")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per record."""
    for record, value in source.values():
        try:
            canisters = with_fields(spoken_by(NAME, value, None), NAME, value, *_TAKEN)
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
            continue
        nodes = (Node("record", None, canisters),)
        yield Imported(source.place_of(record), nodes, row=row_digest(value))


FORMAT = Format(
    NAME,
    "Alpaca data set",
    detect,
    read,
    is_data_set=True,
    keys=("instruction", "input", "output"),
)
