"""Whole Converse answers, both ways.

Cached input is counted apart from ``inputTokens``; our usage counts all of it. An answer names neither its model nor
itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.dialects.bedrock_converse.reading import ConverseReader
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.dialects.bedrock_converse.writing import ConverseWriter
from cannery.families.blocks.answers import Counts, ending_word, endings, left_of_counts
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces
from cannery.wire.bodies import Object, decode, encode, read_fields
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, recall

FINISH = {
    "end_turn": FinishReason.Stop,
    "tool_use": FinishReason.Tool,
    "max_tokens": FinishReason.Length,
    "stop_sequence": FinishReason.StopSequence,
    "guardrail_intervened": FinishReason.Filter,
    "content_filtered": FinishReason.Filter,
    "malformed_model_output": FinishReason.Malformed,
    "malformed_tool_use": FinishReason.Malformed,
    "model_context_window_exceeded": FinishReason.ContextWindow,
}
FINISH_WORDS = {
    FinishReason.Stop: "end_turn",
    FinishReason.Length: "max_tokens",
    FinishReason.Tool: "tool_use",
    FinishReason.StopSequence: "stop_sequence",
    FinishReason.Refusal: "content_filtered",
    FinishReason.Filter: "content_filtered",
    FinishReason.Pause: "end_turn",
    FinishReason.ContextWindow: "model_context_window_exceeded",
    FinishReason.Malformed: "malformed_model_output",
    FinishReason.Error: "end_turn",
    FinishReason.Other: "end_turn",
}
_SAYS = frozenset({FinishReason.Malformed})
_COUNTS = Counts(*("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"))
read_usage = _COUNTS.read
stop_word = partial(ending_word, "content_filtered")
# Counts that are told twice, under a former name; and an object without which no answer is.
MODELLED_ANSWER = frozenset(
    {
        *("stopReason", "metrics", "usage.cacheReadInputTokenCount"),
        *("usage.cacheWriteInputTokenCount", "usage.totalTokens"),
    }
)
_NO_TIME: Object = {"latencyMs": 0}


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_fields(NAME, body, places, _read_response)


def _read_response(fields: Any, places: Places) -> Response:
    reader = ConverseReader(NAME, places)
    reader.takes_marks = False
    body = {key: decode(raw) for key, raw in fields.items()}
    output = reader.object(body.pop("output", None), "output")
    message = reader.object(output.pop("message", None), "output.message")
    content = reader.list(message.pop("content", None), "output.message.content")
    dropped = [] if "role" in message else ["role"]
    if message.get("role") == "assistant":
        del message["role"]
    path = ("output", "message", "content")
    if content:
        reader.content(content, "assistant", path, None, [])
    if "stopReason" not in body:
        # What the answer does not say is told at its root.
        places.settings["finish"] = ()
    around = nested(output, {"message": nested(message, {}, dropped)})
    finish, usage, patch = take_envelope(body, {"output": around})
    residue = None if patch is None else Residue(NAME, None, encode(patch).decode())
    canisters = Conversation.trusted(reader.canisters)
    return new_response(  # type: ignore[no-any-return]
        canisters, finish, usage, absent, absent, absent, residue, NAME
    )


def take_envelope(body: Object, inner: dict[str, Object | None]) -> tuple[Any, Any, Object | None]:
    """Take what stands around the message: the finish, the tokens, and the patch for what is left."""
    dropped = [key for key in ("stopReason", "usage", "metrics") if key not in body]
    word = body.get("stopReason")
    finish: Any = absent
    if type(word) is str:
        finish = FINISH.get(word, FinishReason.Other)
        if FINISH_WORDS[finish] == word:
            del body["stopReason"]
    usage = read_usage(body.get("usage"))
    if usage is not absent:
        inner = {**inner, "usage": left_of_counts(body.pop("usage"), write_usage(usage), {})}
    return finish, usage, nested(body, inner, dropped)


def write_usage(usage: Usage) -> Object:
    """Token counts in the usual form."""
    return {**_COUNTS.write(usage), "totalTokens": usage.input + usage.output}


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    is_same = response.source == NAME
    writer = ConverseWriter(report, is_same=is_same, for_answer=True)
    content = writer.blocks(answer_pieces(response, NAME, report), "assistant")
    body: Object = {"output": {"message": {"role": "assistant", "content": content}}}
    finish = response.finish
    word = FINISH_WORDS[finish] if isinstance(finish, FinishReason) else None
    if not is_same:
        word = stop_word(word, **endings(response.canisters))
        report_ending(response, report, says=_SAYS)
    body |= {
        "stopReason": word,
        "usage": write_usage(response.usage if isinstance(response.usage, Usage) else Usage()),
        "metrics": _NO_TIME,
    }
    residue = own_residue(response, NAME)
    return body if residue is None else recall(body, residue.envelope)
