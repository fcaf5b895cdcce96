"""Whole Cohere responses and errors, both ways."""

from __future__ import annotations

from cannery.dialects.cohere_chat.reading import CohereReader
from cannery.dialects.cohere_chat.settings import NAME
from cannery.dialects.cohere_chat.writing import CohereWriter
from cannery.families.openai.errors import read_openai_error
from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response, Usage
from cannery.wire.answers import Answers, Fact, answer_pieces, call_stem, error_value
from cannery.wire.bodies import Fields, Object, decode, encode, fields_reader
from cannery.wire.contract import WireError
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, take_usual

MADE_ID = "cannery"
FINISHES = Finishes(
    {
        "COMPLETE": FinishReason.Stop,
        "STOP_SEQUENCE": FinishReason.StopSequence,
        "MAX_TOKENS": FinishReason.Length,
        "TOOL_CALL": FinishReason.Tool,
        "ERROR": FinishReason.Error,
    },
    {FinishReason.ContextWindow: "MAX_TOKENS"},
)


class _Counts(Counts):
    """Token counts, which are reported twice: as used, and as billed."""

    def write(self, usage: Usage) -> Object:
        """The usage object as the server would write it."""
        counts = super().write(usage)
        return {"billed_units": counts["tokens"], **counts}


COUNTS = _Counts(
    {
        "input": "tokens.input_tokens",
        "output": "tokens.output_tokens",
        "cache_read": "cached_tokens",
    },
    needs=("input", "output"),
)
ANSWERS = Answers(
    NAME, FINISHES, COUNTS, (Fact("id", "identifier", MADE_ID),), finish="finish_reason"
)


@fields_reader(NAME)
def read_response(fields: Fields, places: Places) -> Response:
    """Read the response from a body."""
    body = {key: decode(field) for key, field in fields.items()}
    reader = CohereReader(NAME, places.canisters)
    reader.is_answer, reader.call_stem = True, call_stem(body.get("id"))
    message = reader.object(reader.field(body, "message", ""), "message")
    del body["message"]
    apart, dropped = _read_message(reader, message)
    inner = {"message": nested(apart, {}, dropped)}
    return ANSWERS.read(body, reader.canisters, places, inner)


def _read_message(reader: CohereReader, message: Object) -> tuple[Object, list[str]]:
    """Read the message of a response: its residue, and the keys that it lacks."""
    apart: Object = {}
    dropped: list[str] = []
    take_usual(message, "role", "assistant", dropped)
    if "role" in message:
        apart["role"] = message.pop("role")
    if type(message.get("content")) is str:
        # The content of a response is a list.
        apart["content"] = message["content"]
    citations = message.pop("citations", absent)
    reader.assistant(message, "assistant", ("message",))
    if citations is not absent and not reader.cite(citations):
        apart["citations"] = citations
    return apart, dropped


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    is_same = response.source == NAME
    writer = CohereWriter(NAME, report, is_same=is_same, for_answer=True)
    pieces = answer_pieces(response, NAME, report)
    message: Object = writer.assistant(pieces) if pieces else {"role": "assistant"}
    if not is_same and "content" not in message and "tool_calls" not in message:
        message["content"] = []
    return ANSWERS.write(response, report, {"message": message}, has_calls="tool_calls" in message)


def read_error(status: int, body: bytes) -> WireError:
    """The error in a body: a message, or the error of a router in front of the server."""
    value = error_value(NAME, body)
    told = value.get("message") if type(value) is dict else None
    if type(told) is not str or not told:
        return read_openai_error(NAME, status, body)
    identifier = value.get("id")
    return WireError(status, told, request_id=identifier if type(identifier) is str else None)


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    told = {"message": error.message}
    return encode(told if error.request_id is None else {"id": error.request_id, **told})
