"""Batch files of OpenAI and Anthropic: one request per line under ``body`` or ``params``, or one answer per line.

An answer is without its question; it is a conversation of assistant messages only, named by its ``custom_id``. As in
OpenAI's "Batch API" and Anthropic's "Message Batches" (read 2026-11-18).
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
from cannery.importers.pieces import row_digest, unknown_record, with_facts, with_fields
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, absent
from cannery.translation import normalize_request, normalize_response

NAME = "batches"
_SAID = ("messages", "contents", "input", "system", "model")


def detect(sample: Sample) -> Detection | None:
    """Lines with a custom_id beside a request or an answer."""
    for record in sample.objects:
        kind, body = _body(record)
        if isinstance(record.get("custom_id"), str) and body:
            return Detection(0.9, f"its lines have a custom_id and a {kind}")
    return None


def _body(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Whether a line is a request or an answer, and its body."""
    for key in ("body", "params"):
        if isinstance(record.get(key), dict):
            return "request", record[key]
    response, result = record.get("response"), record.get("result")
    found = response.get("body") if isinstance(response, dict) else None
    if found is None and isinstance(result, dict):
        found = result.get("message")
    return "response", found if isinstance(found, dict) else {}


def read(source: Source) -> Iterator[Found]:
    """One conversation per line."""
    for record, value in source.values():
        kind, body = _body(value) if isinstance(value, dict) else ("", {})
        try:
            said, model = _request(body) if kind == "request" else _answer(body)
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
            continue
        rest = {**value, "body": {key: body[key] for key in body if key not in _SAID}}
        taken = ("params", "response", "result") if kind == "response" else ("params",)
        canisters = with_fields(said, NAME, rest, *taken)
        title = str(value.get("custom_id", ""))
        nodes = (Node(kind, None, canisters),)
        name = source.place_of(record)
        yield Imported(name, nodes, title, model=model, row=row_digest(value))


def _request(body: dict[str, Any]) -> tuple[list[AnyCanister], str | None]:
    found = detection.detect(body)
    request = normalize_request(body, found.dialect)
    return list(request.conversation), request.model if isinstance(request.model, str) else None


def _answer(body: dict[str, Any]) -> tuple[list[AnyCanister], str | None]:
    found = detection.detect(body)
    if found.kind != "response":
        raise InputError(f"a {found.kind} where an answer stands")
    response = normalize_response(body, found.dialect)
    model = response.model if isinstance(response.model, str) else None
    usage = None if response.usage is absent else response.usage
    return with_facts(response.canisters, NAME, model=model, usage=usage), model


FORMAT = Format(
    NAME,
    "batch file of OpenAI or Anthropic",
    detect,
    read,
    is_data_set=True,
    keys=("custom_id", "body", "params", "response", "result"),
)
