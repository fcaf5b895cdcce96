"""Requests of any dialect: one body, an array of them, or a body a line; each record's dialect is told by its shape."""

from __future__ import annotations

from collections.abc import Iterator

from cannery import detection
from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import unknown_record
from cannery.importers.sources import Source
from cannery.translation import normalize_request

NAME = "requests"


def detect(sample: Sample) -> Detection | None:
    """A body that some dialect takes as a request."""
    for record in sample.objects:
        try:
            found = detection.detect(record)
            normalize_request(record, found.dialect)
        except InputError:
            continue
        if found.kind == "request":
            return Detection(0.5, f"it holds requests of {found.dialect}: {found.reason}")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a request."""
    for record, value in source.values():
        try:
            found = detection.detect(value)
            request = normalize_request(value, found.dialect)
        except InputError as error:
            yield unknown_record("unreadable", f"{record.place}: {error}", value)
            continue
        model = request.model if isinstance(request.model, str) else None
        nodes = (Node("request", None, tuple(request.conversation)),)
        yield Imported(source.place_of(record), nodes, model=model)


FORMAT = Format(NAME, "requests of any dialect", detect, read)
