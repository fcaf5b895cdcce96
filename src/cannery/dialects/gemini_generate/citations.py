"""Citations, which Gemini keeps beside what was said: grounding supports and citation sources, both ways.

Spans count bytes of UTF-8 here and characters in the model. No request has them, so they stay with the answer; the
residue of an answer keeps their exact spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cannery.dialects.gemini_generate.spelling import NAME, Object, get
from cannery.messages.content import Citation
from cannery.messages.json_text import write_json

_SOURCES = ("web", "retrievedContext", "maps", "image")


def read_citations(
    candidate: Object, texts: Sequence[str | None]
) -> Iterator[tuple[int, Citation]]:
    """The citations of a candidate, each with the position of the text it is about.

    ``texts`` are the texts of its parts, None for what is no text.
    """
    grounding = get(candidate, "groundingMetadata")
    chunks = get(grounding, "groundingChunks")
    for support in _listed(get(grounding, "groundingSupports")):
        segment = get(support, "segment")
        position = _position(get(segment, "partIndex"), texts)
        if position is None:
            continue
        for index in _listed(get(support, "groundingChunkIndices")):
            is_there = type(chunks) is list and type(index) is int and 0 <= index < len(chunks)
            source = _source(chunks[index]) if is_there else {}
            yield position, _citation(support, segment, source, str(texts[position]))
    metadata = get(candidate, "citationMetadata")
    for item in _listed(get(metadata, "citationSources") or get(metadata, "citations")):
        position = _position(None, texts)
        if position is not None:
            yield position, _citation(item, item, item, str(texts[position]))


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _position(index: Any, texts: Sequence[str | None]) -> int | None:
    """The part that a segment names, if it is text, or else the first text."""
    if type(index) is int and 0 <= index < len(texts) and texts[index] is not None:
        return index
    return next((place for place, text in enumerate(texts) if text is not None), None)


def _source(chunk: Any) -> Any:
    found = (get(chunk, key) for key in _SOURCES)
    return next((source for source in found if source is not None), {})


def _citation(item: Any, segment: Any, source: Any, text: str) -> Citation:
    uri, title, cited = get(source, "uri"), get(source, "title"), get(segment, "text")
    start, end = get(segment, "startIndex"), get(segment, "endIndex")
    data = text.encode()
    return Citation(
        NAME,
        write_json(item),
        uri if type(uri) is str else None,
        title if type(title) is str else None,
        cited if type(cited) is str else None,
        _characters(data, start or 0) if type(end) is int else None,
        _characters(data, end) if type(end) is int else None,
    )


def _characters(data: bytes, count: Any) -> int:
    """How many characters so many bytes are."""
    return len(data[: count if type(count) is int and count > 0 else 0].decode("utf-8", "ignore"))


class Grounding:
    """Collects citations of other dialects as grounding: sources once each, and what they support."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str | None], int] = {}
        self._supports: list[Object] = []

    def add(self, part: int, text: str, citation: Citation) -> bool:
        """Take a citation of the text of a part; False for what no grounding can say."""
        if citation.dialect == NAME or citation.url is None:
            return citation.dialect == NAME
        index = self._sources.setdefault((citation.url, citation.title), len(self._sources))
        start, end = citation.start, citation.end
        if start is None or end is None:
            start, end = 0, len(text)
        segment: Object = {"partIndex": part} if part else {}
        segment["startIndex"] = len(text[:start].encode())
        segment["endIndex"] = len(text[:end].encode())
        segment["text"] = text[start:end]
        self._supports.append({"segment": segment, "groundingChunkIndices": [index]})
        return True

    def written(self) -> Object:
        """The field of a candidate, or none."""
        if not self._supports:
            return {}
        chunks = [
            {"web": {"uri": url} if title is None else {"uri": url, "title": title}}
            for url, title in self._sources
        ]
        grounding = {"groundingChunks": chunks, "groundingSupports": self._supports}
        return {"groundingMetadata": grounding}
