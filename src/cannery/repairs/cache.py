"""Cache marks: no more than a provider allows; the earliest are removed, since a later one covers them."""

from __future__ import annotations

from typing import Any

from cannery.messages.residue import Residue
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report
from cannery.wire.turns import changed


def cache_marks(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Remove the earliest cache marks beyond the limit."""
    marked = [index for index, piece in enumerate(pieces) if cache_mark(piece)]
    surplus = set(marked[: max(0, len(marked) - rules.cache_marks)])
    if not surplus:
        return pieces
    arranged: list[Piece] = []
    for index, piece in enumerate(pieces):
        if index not in surplus:
            arranged.append(piece)
            continue
        report.repair("cache_marks", piece.place)
        report.lose("CACHE_MARK_DROPPED", piece.place)
        fields: dict[str, Any] = {
            name: getattr(piece.canister.residue, name)
            for name in Residue.__struct_fields__
            if name != "cache"
        }
        arranged.append(Piece(changed(piece.canister, residue=Residue(**fields)), piece.place))
    return arranged


def cache_mark(piece: Piece) -> str | None:
    """The cache mark of a piece, if any."""
    residue = piece.canister.residue
    return None if residue is None else residue.cache
