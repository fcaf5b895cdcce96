"""Requests of any dialect: one body, an array of them, or a body a line; each record's dialect is told by its shape.

A body is a request only if a dialect finds somebody who speaks in it, and leaves no text and no messages unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery import detection
from cannery.errors import InputError
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.messages import Request, Role
from cannery.translation import normalize_request

NAME = "requests"
# Where dialects have what is said; the other fields of a body are kept beside it.
_SAID = ("messages", "contents", "input", "system", "systemInstruction", "system_instruction")
# Fields in which other programs keep what was said, and no request has.
_ANSWERS = frozenset(
    {
        "chosen",
        "rejected",
        "completion",
        "completions",
        "response",
        "responses",
        "output",
        "outputs",
        "answer",
        "answers",
        "label",
        "chosen_messages",
        "rejected_messages",
        "response_json",
        "conversation_id",
        "session_id",
        "sessionId",
    }
)


def detect(sample: Sample) -> Detection | None:
    """Bodies that a dialect takes as requests, and nothing else."""
    told: dict[str, str] = {}
    for record in sample.objects:
        try:
            found, _ = _request(record)
        except InputError:
            continue
        told.setdefault(found.dialect, found.reason)
    if not told or len(sample.objects) < len(sample.records):
        return None
    reasons = "; ".join(f"{dialect}: {reason}" for dialect, reason in told.items())
    return Detection(0.5, f"it holds requests of {reasons}")


def _request(body: Any) -> tuple[detection.Detection, Request]:
    """A body as a request; InputError if it is none."""
    found = detection.detect(body)
    if found.kind != "request":
        raise InputError(f"a {found.kind} of {found.dialect}, not a request")
    unread = sorted(_ANSWERS & body.keys())
    if unread:
        raise InputError(f"no request has {', '.join(unread)}")
    request = normalize_request(body, found.dialect)
    if all(canister.role is Role.Supervisor for canister in request.conversation):
        raise InputError("nobody speaks in it")
    return found, request


def read(source: Source) -> Iterator[Found]:
    """One conversation a request."""
    for record, value in source.values():
        try:
            _, request = _request(value)
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
            continue
        model = request.model if isinstance(request.model, str) else None
        canisters = with_fields(request.conversation, NAME, value, "model", *_SAID)
        yield Imported(source.place_of(record), (Node("request", None, canisters),), model=model)


FORMAT = Format(
    NAME,
    "requests of any dialect",
    detect,
    read,
    keys=("model", "messages", "contents", "input", "tools", "max_tokens"),
)
