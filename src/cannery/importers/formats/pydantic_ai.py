"""pydantic-ai messages as JSON: an array of ``{kind: request | response, parts: [{part_kind, …}]}``.

A request has its instructions beside its parts; they are imported when they change. Seen with pydantic-ai 2.66.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cannery.importers.api_messages import Turn
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.drafts import Draft
from cannery.importers.pieces import moment, objects, text_of, unknown_record, usage_of, with_fields
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import AnyCanister, Usage

NAME = "pydantic_ai"
# The fields of a message that are read; the others are stored as facts.
_READ = ("kind", "parts", "timestamp", "instructions", "conversation_id")


def detect(sample: Sample) -> Detection | None:
    """Requests and responses of parts."""
    records = sample.records
    if records and all(_is_message(record) for record in records):
        return Detection(0.95, "it is a list of requests and responses with a part_kind")
    return None


def _is_message(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("kind") not in ("request", "response"):
        return False
    parts = record.get("parts")
    return isinstance(parts, list) and all("part_kind" in part for part in objects(parts))


def read(source: Source) -> Iterator[Found]:
    """One conversation per array, or for all lines."""
    for _, found in groupby(source.values(), lambda each: each[0].group * each[0].is_item):
        yield from _chat(list(found), source.name)


def _chat(records: list[tuple[Any, Any]], place: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    instructions = ""
    model: str | None = None
    created = None
    for number, (record, message) in enumerate(records):
        if not _is_message(message):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, record.place, message, above)
            continue
        when = moment(message.get("timestamp"))
        created = created or when
        said: tuple[AnyCanister, ...] = ()
        told = text_of(message.get("instructions"))
        if told and told != instructions:
            instructions = told
            draft = Draft(NAME, "system", when, unknown)
            draft.text(told)
            said = draft.done()
        if message["kind"] == "request":
            said = (*said, *_request(message, unknown))
        else:
            model = text_of(message.get("model_name")) or model
            said = (*said, *_response(message, unknown))
        turns.append((f"#{number}", with_fields(said, NAME, message, *_READ)))
    first = next((value for _, value in records if isinstance(value, dict)), {})
    name = text_of(first.get("conversation_id")) or place
    yield Imported(name, linear(turns), created=created, model=model, unknown=dict(unknown))


def _request(message: dict[str, Any], unknown: Counter[str]) -> Iterator[AnyCanister]:
    for part in objects(message["parts"]):
        kind = part.get("part_kind")
        when = moment(part.get("timestamp")) or moment(message.get("timestamp"))
        role = "system" if kind == "system-prompt" else "user"
        draft = Draft(NAME, role, when, unknown)
        content = part.get("content")
        if kind in ("tool-return", "builtin-tool-return"):
            failed = part.get("outcome") == "failed"
            draft.answer(part.get("tool_call_id"), content, failed=failed)
        elif kind == "retry-prompt" and part.get("tool_call_id"):
            draft.answer(part.get("tool_call_id"), content, failed=True)
        elif kind in ("user-prompt", "system-prompt", "retry-prompt"):
            for item in content if isinstance(content, list) else [content]:
                _item(draft, item)
        else:
            draft.strange(kind, part)
        yield from draft.done()


def _item(draft: Draft, item: Any) -> None:
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind in ("image-url", "audio-url", "document-url", "video-url"):
        draft.media(item.get("url"), item.get("media_type") or "image/*" * (kind == "image-url"))
    elif kind == "binary" and isinstance(item.get("data"), str):
        media = text_of(item.get("media_type"))
        # The SDK writes URL-safe base64.
        data = base64.b64encode(base64.urlsafe_b64decode(item["data"] + "==")).decode()
        draft.media(f"data:{media};base64,{data}", media)
    elif isinstance(item, str):
        draft.text(item)
    elif item is not None:
        draft.strange(kind, item)


def _response(message: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    draft = Draft(NAME, "assistant", moment(message.get("timestamp")), unknown)
    for part in objects(message["parts"]):
        kind = part.get("part_kind")
        if kind == "text":
            draft.text(part.get("content"))
        elif kind == "thinking":
            draft.thought(part.get("content"), part.get("signature"))
        elif kind in ("tool-call", "builtin-tool-call"):
            draft.call(part.get("tool_call_id"), part.get("tool_name"), part.get("args"))
        elif kind == "builtin-tool-return":
            draft.answer(part.get("tool_call_id"), part.get("content"))
        else:
            draft.strange(kind, part)
    return draft.done(model=message.get("model_name"), usage=_usage(message.get("usage")))


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, written = value.get("cache_read_tokens"), value.get("cache_write_tokens")
    total = value.get("input_tokens", value.get("request_tokens"))
    cached = sum(count for count in (read, written) if isinstance(count, int))
    return usage_of(
        fresh=total - cached if isinstance(total, int) else 0,
        output=value.get("output_tokens", value.get("response_tokens")),
        read=read,
        written=written,
    )


FORMAT = Format(
    NAME,
    "pydantic-ai messages",
    detect,
    read,
    keys=("kind", "parts", "part_kind", "model_name"),
)
