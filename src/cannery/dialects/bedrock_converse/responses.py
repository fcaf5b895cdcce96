"""Whole Converse responses, both ways.

Cached input is counted apart from ``inputTokens``; our usage counts all of it. A response has no model and no id.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.bedrock_converse.reading import ConverseReader
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.dialects.bedrock_converse.writing import ConverseWriter
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import Answers, Fact, answer_pieces, endings
from cannery.wire.bodies import Object, decode, fields_reader
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested

FINISHES = Finishes(
    {
        "end_turn": FinishReason.Stop,
        "tool_use": FinishReason.Tool,
        "max_tokens": FinishReason.Length,
        "stop_sequence": FinishReason.StopSequence,
        "content_filtered": FinishReason.Filter,
        "guardrail_intervened": FinishReason.Filter,
        "malformed_model_output": FinishReason.Malformed,
        "malformed_tool_use": FinishReason.Malformed,
        "model_context_window_exceeded": FinishReason.ContextWindow,
    },
    {FinishReason.Refusal: "content_filtered"},
)
COUNTS = Counts(
    {
        "input": "inputTokens",
        "output": "outputTokens",
        "cache_read": "cacheReadInputTokens",
        "cache_write": "cacheWriteInputTokens",
        "total": "totalTokens",
    },
    apart=("cache_read", "cache_write"),
)
# Counts that are repeated under a former name; and an object that every response has.
MODELLED_ANSWER = frozenset(
    {
        *("stopReason", "metrics", "usage.cacheReadInputTokenCount"),
        *("usage.cacheWriteInputTokenCount", "usage.totalTokens"),
    }
)
ANSWERS = Answers(
    NAME,
    FINISHES,
    COUNTS,
    (Fact("metrics", usual={"latencyMs": 0}),),
    "stopReason",
    always_counts=True,
)


@fields_reader(NAME)
def read_response(fields: Any, places: Places) -> Response:
    """Read the response from a body."""
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
    around = nested(output, {"message": nested(message, {}, dropped)})
    return ANSWERS.read(body, reader.canisters, places, {"output": around})


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    writer = ConverseWriter(report, is_same=response.source == NAME, for_answer=True)
    content = writer.blocks(answer_pieces(response, NAME, report), "assistant")
    said = {"output": {"message": {"role": "assistant", "content": content}}}
    return ANSWERS.write(response, report, said, **endings(response.canisters))
