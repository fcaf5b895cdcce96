"""Citations for another dialect: address, title and span are carried; every other field is reported as lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cannery.messages.canisters import AnyCanister
from cannery.messages.content import PLAIN, Citation, TextualContentClass, new_text
from cannery.messages.json_text import decode_json
from cannery.wire.losses import Place, Report
from cannery.wire.turns import changed

# Fields that every target's URL citation expresses, in the terms of all dialects. A search result has its address as
# source; a segment is the span and the text it covers.
_SHARED = frozenset(
    {
        *("type", "url", "uri", "source", "title", "filename", "file_name"),
        *("start_index", "end_index", "startIndex", "endIndex", "segment"),
        *("groundingChunkIndices", "grounding_chunk_indices"),
    }
)


def cited(canister: AnyCanister, citations: Iterable[Citation]) -> AnyCanister:
    """The canister of a bare text, with citations added."""
    return changed(canister, held=new_text(canister.held, PLAIN, tuple(citations)))


def has_citations(content: Any) -> bool:
    """Whether a content is text with citations."""
    return isinstance(content, TextualContentClass) and bool(content.citations)


def is_sayable(citation: Citation, dialect: str) -> bool:
    """Whether a dialect can write a citation: its own, or one of a page or a named file."""
    return citation.dialect == dialect or citation.url is not None or citation.title is not None


def report_approximated(
    said: Iterable[Citation], dialect: str, report: Report, place: Place
) -> None:
    """Report citations that the target can express only in part."""
    if any(citation.dialect != dialect and _says_more(citation.raw) for citation in said):
        report.lose("CITATION_APPROXIMATED", place)


def _says_more(raw: str) -> bool:
    """Whether a citation has facts that no target can express."""
    fields: Any = decode_json(raw) if raw else {}
    if type(fields) is not dict:
        return True
    inner = fields.get("url_citation")
    if type(inner) is dict:
        fields = {**fields, **inner, "url_citation": None}
    return any(value is not None and key not in _SHARED for key, value in fields.items())
