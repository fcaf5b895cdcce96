"""ShareGPT data sets: an array or lines of ``{"conversations": [{"from", "value"}]}``.

Preferences (``chosen`` and ``rejected`` beside the turns) become two branches, the chosen one being current.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import objects, spoken_by, text_of, unknown_record
from cannery.importers.sources import Source

NAME = "sharegpt"


def detect(sample: Sample) -> Detection | None:
    """Turns with ``from`` and ``value``."""
    for record in sample.objects:
        if any("from" in turn and "value" in turn for turn in objects(record.get("conversations"))):
            return Detection(0.95, "it has conversations of turns with from and value")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a record."""
    for record, value in source.values():
        try:
            yield _conversation(value, source.place_of(record))
        except InputError as error:
            yield unknown_record("unreadable", f"{record.place}: {error}", value)


def _conversation(value: Any, place: str) -> Imported:
    branches = ("chosen", "rejected")
    body = value if isinstance(value, dict) else {}
    whole = spoken_by(NAME, value, None)
    nodes = [Node("turns", None, tuple(whole))]
    for branch in branches:
        if isinstance(body.get(branch), dict):
            answer = spoken_by(NAME, {"conversations": [body[branch]]}, None)
            nodes.append(Node(branch, "turns", tuple(answer)))
    current = nodes[1].identifier if len(nodes) > 1 else None
    return Imported(
        str(body.get("id", place)), tuple(nodes), text_of(body.get("title")), current=current
    )


FORMAT = Format(NAME, "ShareGPT data set", detect, read)
