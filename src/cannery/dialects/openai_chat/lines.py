"""Writing Chat bodies of requests that come one a line, as data sets do."""

from __future__ import annotations

from collections.abc import Iterable

from cannery.dialects.openai_chat.settings import NAME
from cannery.wire.contract import UNKNOWN_MODEL
from cannery.wire.lines import ChatLines, LineRequest
from cannery.wire.losses import Notes

_MODEL_UNKNOWN = ("MODEL_UNKNOWN", "model", "")
_LINES = ChatLines(NAME, UNKNOWN_MODEL)


def write_lines(requests: Iterable[LineRequest], notes: Notes) -> bytes:
    """The bodies of requests that name no model, one a line."""
    notes.append(_MODEL_UNKNOWN)
    return _LINES.write(requests)
