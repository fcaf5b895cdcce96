"""Completions: rows of a question and its answer, ``{prompt, completion}`` and similar, texts or lists of messages.

Every other column (``label``, ``score``, ``source``) is stored with the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import is_message, read_messages
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import row_digest, text_of, unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "completions"
# The names of the question and its answer in rows.
_PAIRS = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("question", "answer"),
    ("query", "response"),
    ("instruction", "response"),
    ("input", "output"),
    ("input", "ideal"),
)
_CONTEXTS = ("system", "context")


def detect(sample: Sample) -> Detection | None:
    """Every row has a question and an answer under the same names."""
    for pair in _PAIRS:
        if sample.objects and all(_has(record, pair) for record in sample.records):
            return Detection(0.6, f"its rows have {pair[0]} and {pair[1]}")
    return None


def _has(record: Any, pair: tuple[str, str]) -> bool:
    if not isinstance(record, dict):
        return False
    return all(_is_said(record.get(key)) for key in pair)


def _is_said(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(is_message, value))
    return isinstance(value, str)


def read(source: Source) -> Iterator[Found]:
    """One conversation per row."""
    for record, value in source.values():
        pair = next((each for each in _PAIRS if _has(value, each)), None)
        if pair is None:
            yield unknown_record(UNREADABLE, record.place, value)
            continue
        place = source.place_of(record)
        spoken = read_messages(list(_messages(value, pair)), NAME, place)
        if spoken.unknown:
            yield from spoken.unknown
            continue
        said = [canister for _, canisters in spoken.turns for canister in canisters]
        taken = (*pair, *(key for key in _CONTEXTS if text_of(value.get(key))))
        nodes = (Node("row", None, with_fields(said, NAME, value, *taken)),)
        yield Imported(place, nodes, row=row_digest(value))


def _messages(row: dict[str, Any], pair: tuple[str, str]) -> Iterator[Any]:
    for key in _CONTEXTS:
        if text_of(row.get(key)):
            yield {"role": "system", "content": row[key]}
    for key, role in zip(pair, ("user", "assistant"), strict=True):
        value = row[key]
        yield from value if isinstance(value, list) else [{"role": role, "content": value}]


FORMAT = Format(
    NAME,
    "completion data set",
    detect,
    read,
    is_data_set=True,
    keys=("prompt", "completion"),
)
