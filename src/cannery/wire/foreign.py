"""Residue of another dialect: what it held is named as lost, once, with its own path."""

from __future__ import annotations

from typing import Any

from cannery.wire.losses import Report
from cannery.wire.residues import dropped_keys

_SIGNATURES = ("thoughtSignature", "thought_signature", "signature", "encrypted_content")
_MARKS = ("cache_control", "prompt_cache_breakpoint")
# Fields that carry no meaning of the conversation: server-made ids and states.
_SILENT = frozenset({".id", ".status", ".type", ".index", ".object", ".role", ".strict"})


def report_residue(value: Any, report: Report, place: int | str | None) -> None:
    """Name what a foreign residue holds and the target will not see."""
    residue = value.residue
    if residue is None:
        return
    for patch in (residue.part, residue.envelope):
        for path, held in dropped_keys(patch):
            _report_field(path, held, report, place)


def _report_field(path: str, held: Any, report: Report, place: int | str | None) -> None:
    key = path.rpartition(".")[2]
    if key in _MARKS or path in _SILENT or held in ("", [], {}):
        return
    if key in _SIGNATURES:
        report.lose("SIGNATURE_DROPPED", place, within=path)
    else:
        report.lose("FIELD_DROPPED", place, f"{key!r} is known only to its own dialect", path)
