"""Whole generateContent answers, both ways. Further candidates stay in the residue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cannery.dialects.gemini_generate.citations import Grounding, read_citations
from cannery.dialects.gemini_generate.reading import MessageReader, list_at, object_at
from cannery.dialects.gemini_generate.settings_reading import whole
from cannery.dialects.gemini_generate.spelling import MISSING, NAME, Object, camel, get
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.content import PLAIN, Citation, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response, new_usage
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.answers import answer_pieces, call_stem, refuse_error
from cannery.wire.bodies import guarded, read_object
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import answer_patch, own_residue, recall
from cannery.wire.turns import changed

FINISH = {
    "STOP": FinishReason.Stop,
    "MAX_TOKENS": FinishReason.Length,
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "MODEL_ARMOR",
            "ESCALATION",
        ),
        FinishReason.Filter,
    ),
    **dict.fromkeys(
        (
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MALFORMED_RESPONSE",
        ),
        FinishReason.Malformed,
    ),
    "CONTINUATION": FinishReason.Pause,
}
FINISH_WORDS = {
    FinishReason.Stop: "STOP",
    FinishReason.Length: "MAX_TOKENS",
    FinishReason.Tool: "STOP",
    FinishReason.StopSequence: "STOP",
    FinishReason.Refusal: "SAFETY",
    FinishReason.Filter: "SAFETY",
    FinishReason.Pause: "CONTINUATION",
    FinishReason.ContextWindow: "MAX_TOKENS",
    FinishReason.Malformed: "MALFORMED_RESPONSE",
    FinishReason.Error: "OTHER",
    FinishReason.Other: "OTHER",
}

# An answer may as well leave it out.
_SAYS = frozenset({*FinishReason, absent})


def read_finish(word: Any, *, has_calls: bool) -> Any:
    """Why the model stopped; Gemini says STOP also when it waits for tools."""
    if type(word) is not str or word in ("", "FINISH_REASON_UNSPECIFIED"):
        return absent
    finish = FINISH.get(word, FinishReason.Other)
    return FinishReason.Tool if has_calls and finish is FinishReason.Stop else finish


def is_blocked(body: Object) -> bool:
    """Whether the prompt was refused, so that there is no answer."""
    return type(get(get(body, "promptFeedback"), "blockReason")) is str


def read_time(value: Any) -> Any:
    """The seconds since 1970 of a time in words, or absent."""
    try:
        moment = datetime.fromisoformat(value)
        return absent if moment.tzinfo is None else int(moment.timestamp())
    except (TypeError, ValueError, OverflowError):
        return absent


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_response(value, places))  # type: ignore[no-any-return]


def _read_response(body: Object, places: Places) -> Response:
    refuse_error(NAME, body, "candidates")
    identifier = get(body, "responseId")
    reader = MessageReader(places.canisters, get(body, "modelVersion"), call_stem(identifier))
    rest, finish = _read_candidates(body, reader)
    if finish is absent and not reader.canisters and is_blocked(body):
        finish = FinishReason.Filter
    known = (
        Conversation.trusted(reader.canisters),
        finish,
        read_usage(get(body, "usageMetadata")),
        text(get(body, "modelVersion")),
        text(identifier),
    )
    created = read_time(get(body, "createTime"))
    response = new_response(*known, source=NAME, created=created)
    patch = answer_patch(_write_settings(response), rest, "candidates", camel)
    if patch is None:
        return response  # type: ignore[no-any-return]
    residue = Residue(NAME, envelope=patch)
    return new_response(*known, residue=residue, source=NAME, created=created)  # type: ignore[no-any-return]


def _read_candidates(body: Object, reader: MessageReader) -> tuple[Object, Any]:
    """Read the first candidate; gives the body without what was said, and why the model stopped."""
    candidates = body.get("candidates")
    if candidates is None or candidates == []:
        return body, absent
    listed = list_at(candidates, ("candidates",))
    candidate = object_at(listed[0], ("candidates", 0))
    content = candidate.get("content")
    rest = candidate
    if content is not None and (type(content) is not dict or content.get("parts")):
        path = ("candidates", 0, "content")
        said = object_at(content, path)
        reader.expect([said])
        reader.content(said, "model", said.pop("role", MISSING), path)
        _cite(reader, candidate)
        rest = {key: item for key, item in candidate.items() if key != "content"}
    has_calls = any(isinstance(one, InvocationCanisterClass) for one in reader.canisters)
    finish = read_finish(get(candidate, "finishReason"), has_calls=has_calls)
    return {**body, "candidates": [rest, *listed[1:]]}, finish


def _cite(reader: MessageReader, candidate: Object) -> None:
    """Hang the citations of a candidate on its texts; the residue keeps their exact spelling."""
    spoken = [
        index for index, canister in enumerate(reader.canisters) if canister.held is not absent
    ]
    parts = [reader.canisters[index] for index in spoken]
    # The arguments of a call are a string too, and nothing that could be cited; nor could an empty text.
    texts = [
        part.held or None if part.role is Role.Assistant and type(part.held) is str else None
        for part in parts
    ]
    cited: dict[int, list[Citation]] = {}
    for position, citation in read_citations(candidate, texts):
        cited.setdefault(position, []).append(citation)
    for position, citations in cited.items():
        held = new_text(str(texts[position]), PLAIN, tuple(citations))
        index = spoken[position]
        reader.canisters[index] = changed(reader.canisters[index], held=held)


def read_usage(value: Any) -> Any:
    """Token counts, or absent; thoughts count as output."""
    prompt = whole(get(value, "promptTokenCount"))
    if prompt is absent:
        return absent
    thoughts = whole(get(value, "thoughtsTokenCount"))
    answer = whole(get(value, "candidatesTokenCount"))
    return new_usage(
        prompt,
        (answer or 0) + (thoughts or 0),
        cache_read=whole(get(value, "cachedContentTokenCount")),
        reasoning=thoughts,
    )


def write_usage(usage: Usage) -> Object:
    """Token counts in the usual form."""
    thoughts = usage.reasoning if isinstance(usage.reasoning, int) else 0
    body: Object = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": max(0, usage.output - thoughts),
        "totalTokenCount": usage.total,
    }
    if usage.reasoning is not absent:
        body["thoughtsTokenCount"] = usage.reasoning
    if usage.cache_read is not absent:
        body["cachedContentTokenCount"] = usage.cache_read
    return body


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    body = _write_settings(response)
    residue = own_residue(response, NAME)
    if residue is not None:
        body = recall(body, residue.envelope)
    is_same = response.source == NAME
    if not is_same:
        report_ending(response, report, says=_SAYS)
    pieces = answer_pieces(response, NAME, report)
    if not pieces:
        return body
    grounding = Grounding()
    writer = MessageWriter(
        report, is_same=is_same, model=_name(response.model), grounding=grounding
    )
    content = writer.content(pieces, "model")
    if content is not None:
        candidates = body.get("candidates") or [{"index": 0}]
        candidate = {"content": content, **candidates[0], **grounding.written()}
        body = {**body, "candidates": [candidate, *candidates[1:]]}
    return body


def _name(model: Any) -> str | None:
    return model if isinstance(model, str) else None


def _write_settings(response: Response) -> Object:
    """An answer without what was said."""
    candidate: Object = {}
    if isinstance(response.finish, FinishReason):
        candidate["finishReason"] = FINISH_WORDS[response.finish]
    candidate["index"] = 0
    body: Object = {"candidates": [candidate]}
    if isinstance(response.usage, Usage):
        body["usageMetadata"] = write_usage(response.usage)
    if isinstance(response.model, str):
        body["modelVersion"] = response.model
    if isinstance(response.identifier, str):
        body["responseId"] = response.identifier
    return body
