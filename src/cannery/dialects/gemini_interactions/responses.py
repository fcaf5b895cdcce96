"""Whole Interactions answers and errors, both ways.

Thoughts are counted beside the output and prompts of tools beside the input; in the model they belong to them. Steps
that are not the model's (a GET may ask for the input too) are kept to the letter.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cannery.dialects.gemini_interactions.reading import StepReader, fail, split_steps
from cannery.dialects.gemini_interactions.settings import NAME
from cannery.dialects.gemini_interactions.writing import StepWriter
from cannery.families.gemini.answers import Counts, read_time
from cannery.families.gemini.errors import INVALID, status_word
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces
from cannery.wire.bodies import Fields, Object, decode, encode, read_fields
from cannery.wire.contract import WireError
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, recall, take_usual

_FINISHES = {
    "completed": FinishReason.Stop,
    "requires_action": FinishReason.Tool,
    "incomplete": FinishReason.Length,
    "requires_continuation": FinishReason.Pause,
    "failed": FinishReason.Error,
    "cancelled": FinishReason.Error,
    "budget_exceeded": FinishReason.Other,
}
_STATUSES = {
    FinishReason.Tool: "requires_action",
    **dict.fromkeys(
        (
            FinishReason.Length,
            FinishReason.ContextWindow,
            FinishReason.Filter,
            FinishReason.Refusal,
        ),
        "incomplete",
    ),
    FinishReason.Pause: "requires_continuation",
    **dict.fromkeys((FinishReason.Error, FinishReason.Malformed), "failed"),
}
_SAYS = frozenset({FinishReason.Pause, FinishReason.Error})
_UNDER_WAY = frozenset({"in_progress", "queued"})
NO_IDENTIFIER = "v1_cannery"
_COUNTS = Counts(
    *("total_input_tokens", "total_tool_use_tokens", "total_output_tokens"),
    *("total_thought_tokens", "total_cached_tokens", "total_tokens"),
)
write_usage = _COUNTS.write


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_fields(NAME, body, places, _read_response)


def _read_response(fields: Fields, places: Places) -> Response:
    if "status" not in fields and "steps" not in fields and "outputs" not in fields:
        is_error = "error" in fields and type(decode(fields["error"])) is dict
        problem = "tells of an error and gives no answer" if is_error else "is required"
        fail(("error" if is_error else "status",), problem)
    if "status" not in fields:
        places.settings["finish"] = ()
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
    return read_answer(answer, reader.canisters, shape)


def read_answer(
    answer: Object, canisters: list[AnyCanister], shape: str | None = None, created: Any = None
) -> Response:
    """The answer that decoded fields of a body give beside its steps; a stream tells first when it was ``created``."""
    has_calls = any(isinstance(canister, InvocationCanisterClass) for canister in canisters)
    dropped: list[str] = []
    inner: Object = {}
    finish = read_finish(answer.get("status"), has_calls=has_calls)
    if created is None:
        created = read_time(answer.get("created"))
    usage: Any = absent
    if type(answer.get("usage")) is dict:
        usage, inner["usage"] = _read_usage(answer["usage"])
        if usage is not absent:
            del answer["usage"]
    model, identifier = answer.get("model"), answer.get("id")
    for key, usual in {
        "id": identifier if type(identifier) is str else NO_IDENTIFIER,
        "object": "interaction",
        "status": finish_word(finish),
        **({} if type(model) is not str else {"model": model}),
        **times(created),
    }.items():
        take_usual(answer, key, usual, dropped)
    patch = nested(answer, inner if usage is not absent else {}, dropped)
    residue = None
    if patch is not None or shape is not None:
        residue = Residue(NAME, None, None if patch is None else write_json(patch), shape)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        finish,
        usage,
        text(model),
        text(identifier),
        absent,
        residue,
        NAME,
        created,
    )


def read_finish(word: Any, *, has_calls: bool) -> Any:
    """Why the answer ended, or absent while it is under way."""
    if type(word) is not str or word in _UNDER_WAY:
        return absent
    finish = _FINISHES.get(word, FinishReason.Other)
    return FinishReason.Tool if has_calls and finish is FinishReason.Stop else finish


def finish_word(finish: Any) -> str:
    """The status of an answer."""
    return _STATUSES.get(finish, "completed")


def times(created: Any) -> Object:
    """When an answer was made, where that is known."""
    if not isinstance(created, int):
        return {}
    try:
        told = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return {}
    return {"created": told, "updated": told}


def _read_usage(counts: Object) -> tuple[Any, Object | None]:
    """Token counts, or absent if there are none, and the patch of the rest."""
    names = _COUNTS.read_names
    usage = _COUNTS.read({name: counts[name] for name in names if type(counts.get(name)) is int})
    if usage is absent:
        return absent, None
    left: Object = {**counts}
    dropped: list[str] = []
    for key, written in write_usage(usage).items():
        take_usual(left, key, written, dropped)
    return usage, nested(left, {}, dropped)


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    is_same = response.source == NAME
    if not is_same:
        report_ending(response, report, says=_SAYS)
    writer = StepWriter(report, is_same=is_same, model=response.model)
    residue = own_residue(response, NAME)
    shape = None if residue is None else residue.form
    steps = writer.input(answer_pieces(response, NAME, report), frozenset({"mixed"}))
    identifier = response.identifier if isinstance(response.identifier, str) else NO_IDENTIFIER
    body = answer_body(identifier, response.model, response.created)
    body["status"] = finish_word(response.finish)
    if isinstance(response.usage, Usage):
        body["usage"] = write_usage(response.usage)
    if steps or shape not in ("absent", "null"):
        body["steps" if shape != "outputs" else "outputs"] = steps
    elif shape == "null":
        body["steps"] = None
    return body if residue is None else recall(body, residue.envelope)


def answer_body(identifier: str, model: Any, created: Any) -> Object:
    """An answer without what was said in it."""
    body: Object = {"id": identifier, "object": "interaction"}
    if isinstance(model, str):
        body["model"] = model
    return {**body, **times(created)}


def write_error(error: WireError) -> bytes:
    """The body of an error: its code is a word."""
    return encode({"error": error_value(error)})


def error_value(error: WireError) -> Object:
    """An error as the service says it."""
    word = status_word(error).lower()
    return {"message": error.message, "code": INVALID if word == "invalid_argument" else word}
