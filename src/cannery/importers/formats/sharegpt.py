"""ShareGPT data sets: an array or lines of ``{"conversations": [{"from", "value"}]}``.

Preferences (``chosen`` and ``rejected`` beside the turns) become two branches; the chosen one is current.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from cannery.importers.pieces import (
    objects,
    row_digest,
    spoken_by,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source

NAME = "sharegpt"
_BRANCHES = ("chosen", "rejected")
_TAKEN = ("conversations", "title", "system", *_BRANCHES)


def detect(sample: Sample) -> Detection | None:
    """Turns with ``from`` and ``value``."""
    rows = [record for record in sample.objects if _turns(record)]
    if not rows:
        return None
    speakers = sorted({str(turn["from"]) for row in rows for turn in _turns(row)})[:6]
    return Detection(
        0.95, f"it has conversations of turns with from and value ({', '.join(speakers)})"
    )


def _turns(record: dict[str, Any]) -> list[dict[str, Any]]:
    turns = objects(record.get("conversations"))
    return [turn for turn in turns if "from" in turn and "value" in turn]


def read(source: Source) -> Iterator[Found]:
    """One conversation per record."""
    for record, value in source.values():
        try:
            yield _conversation(value, source.place_of(record))
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)


def _conversation(value: Any, place: str) -> Imported:
    body = value if isinstance(value, dict) else {}
    whole = with_fields(spoken_by(NAME, value, None), NAME, body, *_TAKEN)
    nodes = [Node("turns", None, whole)]
    for branch in _BRANCHES:
        if isinstance(body.get(branch), dict):
            answer = spoken_by(NAME, {"conversations": [body[branch]]}, None)
            nodes.append(Node(branch, "turns", tuple(answer)))
    current = nodes[1].identifier if len(nodes) > 1 else None
    return Imported(
        str(body.get("id", place)),
        tuple(nodes),
        text_of(body.get("title")),
        current=current,
        row=row_digest(value),
    )


FORMAT = Format(
    NAME,
    "ShareGPT data set",
    detect,
    read,
    is_data_set=True,
    keys=("conversations", "from", "value"),
)
