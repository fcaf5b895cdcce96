"""Residue of another dialect: what it held is named as lost, once, with its own path."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.messages.canisters import ResultCanisterClass
from cannery.messages.requests import Request, Response
from cannery.wire.losses import ENVELOPE, Place, Report
from cannery.wire.residues import dropped_keys

_SIGNATURES = ("thoughtSignature", "thought_signature", "signature", "encrypted_content")
_MARKS = ("cache_control", "prompt_cache_breakpoint")
# Fields that carry no meaning of the conversation: server-made ids and states.
_SILENT = frozenset({".id", ".status", ".type", ".index", ".object", ".role", ".strict"})


def report_residue(value: Any, report: Report, place: Place) -> None:
    """Name what the foreign residue of a canister or tool holds and the target will not see."""
    residue = value.residue
    if residue is None or isinstance(value, (Request, Response)):
        return
    for path, held in dropped_keys(residue.part):
        _report_field(path, held, report, place)
    is_result = isinstance(value, ResultCanisterClass)
    for path, held in dropped_keys(residue.envelope):
        # The name on a result is that of its call, which says it already.
        if not (is_result and path == ".name"):
            _report_field(path, held, report, place, ENVELOPE)


def report_settings(value: Request | Response, modelled: Collection[str], report: Report) -> None:
    """Name the fields of a foreign request or response that are not among those its dialect reads."""
    if value.residue is None:
        return
    for path, held in dropped_keys(value.residue.envelope):
        if path.removeprefix(".") not in modelled:
            _report_field(path, held, report, "")


def _report_field(path: str, held: Any, report: Report, place: Place, where: str = "") -> None:
    key = path.rpartition(".")[2]
    if key in _MARKS or path in _SILENT or held in ("", [], {}):
        return
    if key in _SIGNATURES:
        report.lose("SIGNATURE_DROPPED", place, within=where + path)
    else:
        detail = f"{key!r} is known only to its own dialect"
        report.lose("FIELD_DROPPED", place, detail, where + path)
