"""Media types: corrected to the actual type of the bytes.

Content that is not sent as bytes keeps its type, because its bytes are unknown; broken content is left out.
"""

from __future__ import annotations

from collections.abc import Callable
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
from cannery.wire.losses import Report
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
    return [
        _corrected(piece, report) if type(piece.canister.held) in _MEDIA else piece
        for piece in pieces
    ]


def _corrected(piece: Piece, report: Report) -> Piece:
    def tell(was: str, became: str) -> None:
        report.repair("media_types", piece.place, f"{was or 'nothing'} became {became}")

    held = piece.canister.held
    typed = _typed(held, tell)
    if typed is held:
        return piece
    canister = changed(piece.canister, held=typed)
    return Piece(canister, piece.place, is_synthetic=piece.is_synthetic)


def _typed(content: Any, tell: Callable[[str, str], None]) -> Any:
    """A content with the types of its bytes; the same object if they are right."""
    kind = type(content)
    if kind is PartsContentClass:
        return _with_typed(content, "parts", tell)
    if kind is FileContentClass and content.chunks:
        return _with_typed(content, "chunks", tell)
    if kind not in _MEDIA or type(content.payload) is Location:
        return content
    mime_type = true_mime_type(content)
    if mime_type == content.mime_type or is_broken(content):
        return content
    tell(content.mime_type, mime_type)
    return msgspec.structs.replace(content, mime_type=mime_type)


def _with_typed(content: Any, field: str, tell: Callable[[str, str], None]) -> Any:
    inner = getattr(content, field)
    typed = tuple(_typed(each, tell) for each in inner)
    if all(one is other for one, other in zip(inner, typed, strict=True)):
        return content
    return msgspec.structs.replace(content, **{field: typed})
