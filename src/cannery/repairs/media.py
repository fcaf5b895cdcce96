"""Media types: corrected to the actual type of the bytes.

Content that is not sent as bytes keeps its type, because its bytes are unknown; broken content is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.messages.content import (
    AudioContentClass,
    FileContentClass,
    ImageContentClass,
    PartsContentClass,
    VideoContentClass,
)
from cannery.messages.payload import Location
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Place, Report
from cannery.wire.media import is_broken, true_mime_type
from cannery.wire.turns import changed

_MEDIA = frozenset(
    {
        *(ImageContentClass, AudioContentClass, VideoContentClass),
        *(FileContentClass, PartsContentClass),
    }
)


def media_types(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:  # noqa: ARG001 - all agree on this
    """Correct media types that the bytes contradict, and normalize their spelling."""
    corrected = pieces
    for index, piece in enumerate(pieces):
        held = piece.canister.held
        if type(held) not in _MEDIA:
            continue
        typed = _typed(held, report, piece.place)
        if typed is not held:
            if corrected is pieces:
                corrected = [*pieces]
            canister = changed(piece.canister, held=typed)
            corrected[index] = Piece(canister, piece.place, is_synthetic=piece.is_synthetic)
    return corrected


def _typed(content: Any, report: Report, place: Place) -> Any:
    """A content with the types of its bytes; the same object if they are right."""
    kind = type(content)
    if kind is PartsContentClass:
        return _with_typed(content, "parts", report, place)
    if kind is FileContentClass and content.chunks:
        return _with_typed(content, "chunks", report, place)
    if kind not in _MEDIA or type(content.payload) is Location:
        return content
    mime_type = true_mime_type(content)
    if mime_type == content.mime_type or is_broken(content):
        return content
    report.repair("media_types", place, f"{content.mime_type or 'nothing'} became {mime_type}")
    return msgspec.structs.replace(content, mime_type=mime_type)


def _with_typed(content: Any, field: str, report: Report, place: Place) -> Any:
    inner = getattr(content, field)
    typed = tuple(_typed(each, report, place) for each in inner)
    if all(one is other for one, other in zip(inner, typed, strict=True)):
        return content
    return msgspec.structs.replace(content, **{field: typed})
