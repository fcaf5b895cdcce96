"""Alpaca data sets: an array or lines of ``{"instruction", "input", "output"}``."""

from __future__ import annotations

from collections.abc import Iterator

from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import spoken_by, unknown_record
from cannery.importers.sources import Source

NAME = "alpaca"


def detect(sample: Sample) -> Detection | None:
    """An instruction with an output."""
    for record in sample.objects:
        if isinstance(record.get("instruction"), str) and "output" in record:
            return Detection(0.95, "it has instructions with outputs")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a record."""
    for record, value in source.values():
        try:
            canisters = tuple(spoken_by(NAME, value, None))
        except InputError as error:
            yield unknown_record("unreadable", f"{record.place}: {error}", value)
            continue
        yield Imported(source.place_of(record), (Node("record", None, canisters),))


FORMAT = Format(NAME, "Alpaca data set", detect, read)
