"""Whole generateContent responses and errors, both ways.

Further candidates stay in the residue. Gemini keeps citations beside the content, as grounding supports and citation
sources, whose spans count bytes of UTF-8; in the model they count characters. No request has them, so they stay with
the response, and the residue of a response keeps their exact spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Union

import msgspec

from cannery.dialects.gemini_generate.forms import (
    NAME,
    WEB_SEARCH,
    Section,
    both,
    expect,
    get,
    whole,
    whole_value,
)
from cannery.dialects.gemini_generate.reading import Field, MessageReader
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.families.gemini.answers import read_time
from cannery.families.gemini.enums import finish_word
from cannery.families.gemini.reading import MISSING, characters
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.content import Citation
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.answers import answer_pieces, call_stem, refuse_error
from cannery.wire.bodies import Object, body_reader
from cannery.wire.citations import cited
from cannery.wire.controls import text
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes, report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall

# The decoded levels of a response; deeper values stay text.
_Said = Union[dict[str, Field], list[Any], str, bool, int, float, None]  # noqa: UP007 - msgspec
_Candidate = Union[dict[str, _Said], list[Any], str, bool, int, float, None]  # noqa: UP007 - msgspec
_Top = Union[list[_Candidate], dict[str, Any], str, bool, int, float, None]  # noqa: UP007 - msgspec
decode_response = msgspec.json.Decoder(dict[str, _Top]).decode

FINISHES = Finishes(
    {
        "STOP": FinishReason.Stop,
        "MAX_TOKENS": FinishReason.Length,
        **dict.fromkeys(
            (
                *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
                *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
                *("MODEL_ARMOR", "ESCALATION"),
            ),
            FinishReason.Filter,
        ),
        **dict.fromkeys(
            (
                *("MALFORMED_RESPONSE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"),
                "TOO_MANY_TOOL_CALLS",
            ),
            FinishReason.Malformed,
        ),
        "CONTINUATION": FinishReason.Pause,
        "OTHER": FinishReason.Other,
    },
    {
        FinishReason.Refusal: "SAFETY",
        FinishReason.ContextWindow: "MAX_TOKENS",
        FinishReason.Error: "OTHER",
    },
    unsaid=("", "FINISH_REASON_UNSPECIFIED"),
)
CITING = ("groundingMetadata", "citationMetadata")
COUNTS = Counts(
    {
        "input": "promptTokenCount",
        "tools": "toolUsePromptTokenCount",
        "output": "candidatesTokenCount",
        "reasoning": "thoughtsTokenCount",
        "cache_read": "cachedContentTokenCount",
        "total": "totalTokenCount",
    },
    apart=("tools", "reasoning"),
    needs=(),
)
USUAL = both(
    (
        *("candidates", "modelVersion", "responseId", "createTime", "usageMetadata"),
        *("finishReason", "index", *COUNTS.paths.values()),
    )
)
_SOURCES = ("web", "retrievedContext", "maps", "image")


def is_blocked(body: Object) -> bool:
    """Whether the prompt was refused, so that there is no answer."""
    reason = get(get(body, "promptFeedback"), "blockReason")
    return type(reason) is str or (type(reason) is int and reason != 0)


@body_reader(NAME, decode_response)
def read_response(body: Object, places: Places) -> Response:
    """Read the response from a body."""
    refuse_error(NAME, body, "candidates")
    section = Section(body, USUAL)
    model, identifier = section.get("modelVersion"), section.get("responseId")
    reader = MessageReader(places.canisters, model, call_stem(identifier))
    finish = _read_candidates(section, reader, places, is_stopped=is_blocked(body))
    canisters = Conversation.trusted(reader.canisters)
    usage = read_around(section)
    patch = section.patch()
    return new_response(  # type: ignore[no-any-return]
        canisters,
        finish,
        usage,
        text(model),
        text(identifier),
        absent,
        None if patch is None else Residue(NAME, None, write_json(patch)),
        NAME,
        read_time(section.get("createTime")),
    )


def read_around(section: Section) -> Any:
    """Take the fields around the candidates, except the time; returns the usage, or absent."""
    usage: Any = absent
    counts = section.get("usageMetadata")
    if type(counts) is dict:
        inner = Section(counts, USUAL)
        usage = read_usage(inner)
        if usage is not absent:
            section.nest("usageMetadata", inner.patch())
    for key in ("modelVersion", "responseId"):
        if type(section.get(key)) is str:
            section.take(key)
    return usage


def _read_candidates(
    section: Section, reader: MessageReader, places: Places, *, is_stopped: bool
) -> Any:
    """Read the first candidate; returns its finish reason, or that of a refused prompt."""
    places.settings["finish"] = ()
    candidates = section.get("candidates")
    if candidates is None or candidates == []:
        if "candidates" not in section.keys:
            section.dropped.append("candidates")
        return FinishReason.Filter if is_stopped else absent
    listed = expect(list, candidates, ("candidates",))
    held = expect(dict, listed[0], ("candidates", 0))
    citing = read_said(held, reader)
    if citing:
        _cite(reader, citing)
    has_calls = any(isinstance(one, InvocationCanisterClass) for one in reader.canisters)
    candidate = Section(held, USUAL)
    key = candidate.keys.get("finishReason")
    places.settings["finish"] = ("candidates", 0) if key is None else ("candidates", 0, key)
    finish = take_ending(candidate, has_calls=has_calls)
    if finish is absent and is_stopped and not reader.canisters:
        finish = FinishReason.Filter
        candidate.write("finishReason", FINISHES.word(finish))
    section.nest("candidates", candidates_patch(candidate, listed[1:]))
    return finish


def read_said(candidate: Object, reader: MessageReader) -> Object:
    """Take the content of a candidate if it has any; returns the fields that may cite its texts."""
    content = candidate.get("content")
    path = ("candidates", 0, "content")
    if content is None or expect(dict, content, path).get("parts") in (None, []):
        return {}
    del candidate["content"]
    reader.unread = [content]
    reader.content(content, "model", content.pop("role", MISSING), path)
    return {key: whole_value(found) for key in CITING if (found := get(candidate, key)) is not None}


def take_ending(candidate: Section, *, has_calls: bool) -> Any:
    """Take the finish reason of a candidate, and its index; returns the reason, or absent."""
    finish = FINISHES.read(finish_word(candidate.get("finishReason")), has_calls=has_calls)
    if finish is not absent:
        candidate.take("finishReason", FINISHES.word(finish))
    candidate.write("index", 0)
    return finish


def candidates_patch(first: Section, others: list[Any]) -> Object | None:
    """The patch of the candidates: the rest of the first, and all others."""
    inner: Object = {}
    patch = first.patch()
    if patch is not None:
        inner["i"] = {"0": patch}
    if others:
        inner["a"] = {str(index): item for index, item in enumerate(others, 1)}
    return inner or None


def _cite(reader: MessageReader, citing: Object) -> None:
    """Attach the citations of a candidate to its texts; the residue keeps their exact spelling."""
    spoken = [
        index for index, canister in enumerate(reader.canisters) if canister.held is not absent
    ]
    parts = [reader.canisters[index] for index in spoken]
    # A call's arguments are also a string, but cannot be cited; nor can an empty text.
    texts = [
        part.held or None if part.role is Role.Assistant and type(part.held) is str else None
        for part in parts
    ]
    found: dict[int, list[Citation]] = {}
    for position, citation in read_citations(citing, texts):
        found.setdefault(position, []).append(citation)
    for position, citations in found.items():
        index = spoken[position]
        reader.canisters[index] = cited(reader.canisters[index], citations)


def read_usage(counts: Section) -> Any:
    """Take the usage, or absent if there is none; thoughts count as output, prompts of tools as input."""
    paths = COUNTS.paths.values()
    usage = COUNTS.read({key: whole(counts.get(key)) for key in paths if key in counts.keys})
    if usage is not absent:
        for key, written in COUNTS.write(usage).items():
            counts.write(key, written)
    return usage


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    body = _write_settings(response)
    residue = own_residue(response, NAME)
    if residue is not None:
        body = recall(body, residue.envelope)
    is_same = response.source == NAME
    if not is_same:
        report_ending(response, report, FINISHES, says=("finish",))
    pieces = answer_pieces(response, NAME, report)
    if not pieces:
        return body
    grounding = Grounding()
    model = response.model if isinstance(response.model, str) else None
    writer = MessageWriter(report, is_same=is_same, model=model, cite=grounding.add)
    content = writer.turn(pieces, "model")
    if content is not None:
        for part in () if is_same else content["parts"]:
            grounding.note(part)
        candidates = body.get("candidates") or [{"index": 0}]
        candidate = {"content": content, **candidates[0], **grounding.written()}
        body = {**body, "candidates": [candidate, *candidates[1:]]}
    return body


def _write_settings(response: Response) -> Object:
    """A response without its content."""
    candidate: Object = {}
    if isinstance(response.finish, FinishReason):
        candidate["finishReason"] = FINISHES.word(response.finish)
    candidate["index"] = 0
    body: Object = {"candidates": [candidate]}
    if isinstance(response.usage, Usage):
        body["usageMetadata"] = COUNTS.write(response.usage)
    if isinstance(response.model, str):
        body["modelVersion"] = response.model
    if isinstance(response.identifier, str):
        body["responseId"] = response.identifier
    return body


# --- citations ---------------------------------------------------------------------------------


def read_citations(
    candidate: Object, texts: Sequence[str | None]
) -> Iterator[tuple[int, Citation]]:
    """The citations of a candidate, each with the position of the text that it cites.

    ``texts`` are the texts of its parts; None for a part that is not text.
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
    """The part that a segment names if it is text, else the first text."""
    if type(index) is int and 0 <= index < len(texts) and texts[index] is not None:
        return index
    return next((place for place, text in enumerate(texts) if text is not None), None)


def _source(chunk: Any) -> Any:
    found = (get(chunk, key) for key in _SOURCES)
    return next((source for source in found if source is not None), {})


def _citation(item: Any, segment: Any, source: Any, text: str) -> Citation:
    uri, title = get(source, "uri"), get(source, "title")
    start, end = get(segment, "startIndex"), get(segment, "endIndex")
    data = text.encode()
    return Citation(
        NAME,
        write_json(item),
        uri if type(uri) is str else None,
        title if type(title) is str else None,
        # The text of a segment is the answer's own, which the span covers.
        None,
        characters(data, start or 0) if type(end) is int else None,
        characters(data, end) if type(end) is int else None,
    )


class Grounding:
    """Collects citations of other dialects as grounding: each source once, and the spans that it supports."""

    def __init__(self) -> None:
        # The queries, and the sources found.
        self._queries: list[str] = []
        self._found: dict[str, str | None] = {}
        self._sources: dict[tuple[str | None, str | None], int] = {}
        self._supports: list[Object] = []

    def note(self, part: Object) -> None:
        """Record the search that a part reports."""
        call, found = part.get("toolCall"), part.get("toolResponse")
        if get(call, "toolType") == WEB_SEARCH:
            self._queries += _listed(get(get(call, "args"), "queries"))
        elif get(found, "toolType") == WEB_SEARCH:
            for source in _listed(get(get(found, "response"), "result")):
                if type(get(source, "url")) is str:
                    self._found.setdefault(source["url"], source.get("title"))

    def add(self, part: int, text: str, citation: Citation) -> bool:
        """Add a citation of a part's text; False if grounding cannot express it."""
        if citation.dialect == NAME or (citation.url is None and citation.title is None):
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
        if not (self._supports or self._queries or self._found):
            return {}
        cited = {url for url, _ in self._sources}
        others = [(url, title) for url, title in self._found.items() if url not in cited]
        chunks = [_chunk(url, title) for url, title in (*self._sources, *others)]
        grounding: Object = {"webSearchQueries": self._queries, "groundingChunks": chunks}
        grounding["groundingSupports"] = self._supports
        return {"groundingMetadata": {key: held for key, held in grounding.items() if held}}


def _chunk(url: str | None, title: str | None) -> Object:
    """A grounding source: a page, or a file without an address."""
    if url is None:
        return {"retrievedContext": {"title": title}}
    return {"web": {"uri": url} if title is None else {"uri": url, "title": title}}
