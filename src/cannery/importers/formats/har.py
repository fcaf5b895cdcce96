"""HAR files, as recorded by browsers and proxies: the calls of LLM APIs among their entries.

A request that a dialect recognises is a conversation, together with its answer, streamed or not. Other entries are
counted, and nothing of them is stored: they contain pages, pictures and cookies.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from cannery import detection
from cannery.errors import CanneryError, InputError
from cannery.importers.bodies import request_of
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    at_time,
    json_value,
    moment,
    objects,
    text_of,
    unknown_record,
    with_facts,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, Response, absent, fold
from cannery.translation import normalize_response, normalize_stream

NAME = "har"


def detect(sample: Sample) -> Detection | None:
    """A log of entries with request and response."""
    for record in sample.objects:
        if any("request" in entry and "response" in entry for entry in _entries(record)):
            return Detection(0.95, "it is a log of entries with request and response")
    return None


def _entries(record: Any) -> list[dict[str, Any]]:
    log = record.get("log") if isinstance(record, dict) else None
    return objects(log.get("entries")) if isinstance(log, dict) else []


def read(source: Source) -> Iterator[Found]:
    """One conversation per call of an LLM API."""
    others = 0
    for record, value in source.values():
        if not _entries(value):
            yield unknown_record("no entries", record.place, value)
        for number, entry in enumerate(_entries(value)):
            place = f"{source.place_of(record)}, entry {number}"
            found = _call(entry, place, source)
            if found is None:
                others += 1
            else:
                yield found
    if others:
        source.notes.append(f"{others:,} entries that are not calls of an LLM API, left out")


def _call(entry: dict[str, Any], place: str, source: Source) -> Imported | None:
    asked = entry.get("request")
    posted = asked.get("postData") if isinstance(asked, dict) else None
    body = text_of(posted.get("text")) if isinstance(posted, dict) else ""
    try:
        _, request = request_of(json_value(body))
    except InputError:
        return None
    when = moment(entry.get("startedDateTime"))
    model = request.model if isinstance(request.model, str) else None
    told = {"url": asked.get("url"), "body": json_value(body)} if isinstance(asked, dict) else {}
    said = with_fields(at_time(request.conversation, when), NAME, {**told, "body": _rest(told)})
    nodes = [Node("request", None, said)]
    answer = _answer(entry.get("response"), place, source)
    if answer is not None:
        nodes.append(Node("answer", "request", tuple(at_time(_said(answer), when))))
    return Imported(place, tuple(nodes), created=when, model=model)


def _rest(told: dict[str, Any]) -> dict[str, Any]:
    """The settings of a request: its body without messages."""
    body = told.get("body", {})
    return {key: body[key] for key in body if key not in ("messages", "contents", "input")}


def _said(answer: Response) -> list[AnyCanister]:
    usage = None if answer.usage is absent else answer.usage
    model = answer.model if isinstance(answer.model, str) else None
    return with_facts(answer.canisters, NAME, model=model, usage=usage)


def _answer(response: Any, place: str, source: Source) -> Response | None:
    """Read the answer; a problem if that fails."""
    content = response.get("content") if isinstance(response, dict) else None
    text = text_of(content.get("text")) if isinstance(content, dict) else ""
    if not text:
        return None
    data = text.encode()
    try:
        if isinstance(content, dict) and content.get("encoding") == "base64":
            data = base64.b64decode(text)
        found = detection.detect(data)
        if found.kind == "stream":
            return fold(normalize_stream([data], found.dialect))
        return normalize_response(data, found.dialect)
    except (CanneryError, ValueError) as error:
        source.problems.append(f"{place}: its answer cannot be read: {error}")
        return None


FORMAT = Format(
    NAME,
    "HAR file with calls of LLM APIs",
    detect,
    read,
    keys=("log", "entries", "startedDateTime", "postData"),
)
