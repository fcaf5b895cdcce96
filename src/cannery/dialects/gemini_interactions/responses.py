"""Whole Interactions responses and errors, both ways.

Thoughts are counted beside the output and prompts of tools beside the input; in the model they belong to them. Steps
that are not the model's (a GET may ask for the input too) are kept exactly.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cannery.dialects.gemini_interactions.reading import StepReader, fail, split_steps
from cannery.dialects.gemini_interactions.settings import NAME
from cannery.dialects.gemini_interactions.writing import StepWriter
from cannery.families.gemini.answers import read_time
from cannery.families.gemini.errors import INVALID, status_word
from cannery.messages.canisters import AnyCanister
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import Answers, Fact, answer_pieces
from cannery.wire.bodies import Fields, Object, decode, encode, fields_reader
from cannery.wire.contract import WireError
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, take_usual

FINISHES = Finishes(
    {
        "completed": FinishReason.Stop,
        "requires_action": FinishReason.Tool,
        "incomplete": FinishReason.Length,
        "requires_continuation": FinishReason.Pause,
        "failed": FinishReason.Error,
        "cancelled": FinishReason.Error,
    },
    {
        **dict.fromkeys(
            (FinishReason.ContextWindow, FinishReason.Filter, FinishReason.Refusal), "incomplete"
        ),
        FinishReason.Malformed: "failed",
    },
    # Statuses of a response in progress.
    unsaid=("in_progress", "queued"),
)
NO_IDENTIFIER = "v1_cannery"
COUNTS = Counts(
    {
        "input": "total_input_tokens",
        "tools": "total_tool_use_tokens",
        "output": "total_output_tokens",
        "reasoning": "total_thought_tokens",
        "cache_read": "total_cached_tokens",
        "total": "total_tokens",
    },
    apart=("tools", "reasoning"),
    needs=(),
)
ANSWERS = Answers(
    NAME,
    FINISHES,
    COUNTS,
    (
        Fact("id", "identifier", NO_IDENTIFIER),
        Fact("object", usual="interaction"),
        Fact("model", "model"),
    ),
    "status",
    reads_calls=True,
)


@fields_reader(NAME)
def read_response(fields: Fields, places: Places) -> Response:
    """Read the response from a body."""
    if "status" not in fields and "steps" not in fields and "outputs" not in fields:
        is_error = "error" in fields and type(decode(fields["error"])) is dict
        problem = "tells of an error and gives no answer" if is_error else "is required"
        fail(("error" if is_error else "status",), problem)
    model = decode(fields["model"]) if "model" in fields else None
    reader = StepReader(places.canisters, model, is_answer=True)
    shape, key = None, "steps" if "steps" in fields or "outputs" not in fields else "outputs"
    given = split_steps(fields[key]) if key in fields else None
    if given is None:
        shape = "null" if "steps" in fields else "absent"
        fields.pop("steps", None)
    else:
        del fields[key]
        reader.answer(given, key)
        shape = None if key == "steps" else key
    answer = {name: decode(field) for name, field in fields.items()}
    return read_answer(answer, reader.canisters, places, shape)


def read_answer(
    answer: Object,
    canisters: list[AnyCanister],
    places: Places,
    shape: str | None = None,
    created: Any = None,
) -> Response:
    """The response from decoded fields of a body without its steps; a stream first says when it was ``created``."""
    if created is None:
        created = read_time(answer.get("created"))
    lacking: list[str] = []
    for key, told in times(created).items():
        take_usual(answer, key, told, lacking)
    around = {"lacking": lacking, "form": shape, "created": created}
    return ANSWERS.read(answer, canisters, places, {}, **around)


def times(created: Any) -> Object:
    """The creation time of a response, if known."""
    if not isinstance(created, int):
        return {}
    try:
        told = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return {}
    return {"created": told, "updated": told}


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    writer = StepWriter(report, is_same=response.source == NAME, model=response.model)
    residue = own_residue(response, NAME)
    shape = None if residue is None else residue.form
    steps = writer.input(answer_pieces(response, NAME, report), frozenset({"mixed"}))
    said: Object = times(response.created)
    if steps or shape not in ("absent", "null"):
        said["steps" if shape != "outputs" else "outputs"] = steps
    elif shape == "null":
        said["steps"] = None
    return ANSWERS.write(response, report, said)


def answer_body(identifier: str, model: Any, created: Any) -> Object:
    """A response without its content."""
    body: Object = {"id": identifier, "object": "interaction"}
    if isinstance(model, str):
        body["model"] = model
    return {**body, **times(created)}


def write_error(error: WireError) -> bytes:
    """The body of an error: its code is a word."""
    return encode({"error": error_value(error)})


def error_value(error: WireError) -> Object:
    """An error in the service's form."""
    word = status_word(error).lower()
    return {"message": error.message, "code": INVALID if word == "invalid_argument" else word}
