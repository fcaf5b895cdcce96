"""Inspect logs: a sample of an ``.eval`` archive, or a whole log in JSON with its ``samples``.

Every sample is a conversation of its own, with the messages that the model received; scores and other fields are stored
with it, events are not. Long texts are in ``attachments`` of the sample. Seen with inspect_ai 0.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
from cannery.importers.drafts import Draft, role_of
from cannery.importers.pieces import (
    moment,
    objects,
    row_digest,
    text_of,
    unknown_record,
    usage_of,
    whole,
    with_facts,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "inspect_eval"
_ATTACHED = "attachment://"
# Fields that repeat the messages, once for each call.
_TAKEN = ("messages", "events", "events_data", "attachments", "output", "input", "store")


def detect(sample: Sample) -> Detection | None:
    """A sample with its messages, or a log of them."""
    for record in sample.objects:
        for found in [record, *objects(record.get("samples"))]:
            if {"epoch", "target", "output"} <= found.keys() and objects(found.get("messages")):
                return Detection(0.95, "its samples have epoch, target, messages and output")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per sample."""
    for record, value in source.values():
        samples: list[Any] = objects(value.get("samples")) if isinstance(value, dict) else []
        facts = value.get("eval") if isinstance(value, dict) else None
        model = text_of(facts.get("model")) if isinstance(facts, dict) else ""
        for number, found in enumerate(samples or [value]):
            place = f"{source.place_of(record)}#{number}"
            if isinstance(found, dict) and isinstance(found.get("messages"), list):
                yield from _sample(found, place, model)
            else:
                yield unknown_record("no sample", record.place, found)


def _sample(sample: dict[str, Any], place: str, model: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    attached = sample.get("attachments")
    attached = attached if isinstance(attached, dict) else {}
    created = moment(sample.get("started_at"))
    output = sample.get("output")
    output = output if isinstance(output, dict) else {}
    model = text_of(output.get("model")) or model
    turns: list[Turn] = []
    for number, message in enumerate(sample["messages"]):
        role = message.get("role") if isinstance(message, dict) else None
        if not (role_of(role) or role == "tool"):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", message, above)
            continue
        draft = Draft(NAME, role_of(role) or "user", created, unknown)
        _say(draft, message, attached)
        made_by = text_of(message.get("model")) or model if role == "assistant" else ""
        turns.append((text_of(message.get("id")) or f"#{number}", draft.done(model=made_by)))
    if turns:
        turns = _with_usage(turns, sample)
        turns[0] = turns[0][0], with_fields(turns[0][1], NAME, sample, *_TAKEN)
    title = f"{sample.get('id')} (epoch {sample.get('epoch')})"
    yield Imported(
        text_of(sample.get("uuid")) or place,
        linear(turns),
        title,
        created,
        model=model or None,
        unknown=dict(unknown),
        row=row_digest([sample.get("uuid") or place, sample.get("id"), sample.get("epoch")]),
    )


def _with_usage(turns: list[Turn], sample: dict[str, Any]) -> list[Turn]:
    """Add the token counts of a sample to its last message, because the messages have none."""
    found = sample.get("model_usage")
    counts = objects(list(found.values())) if isinstance(found, dict) else []
    usage = usage_of(
        fresh=sum(whole(each.get("input_tokens")) for each in counts),
        output=sum(whole(each.get("output_tokens")) for each in counts),
        read=sum(whole(each.get("input_tokens_cache_read")) for each in counts) or None,
        written=sum(whole(each.get("input_tokens_cache_write")) for each in counts) or None,
    )
    name, last = turns[-1]
    return [*turns[:-1], (name, tuple(with_facts(last, NAME, usage=usage)))]


def _say(draft: Draft, message: dict[str, Any], attached: dict[str, Any]) -> None:
    content = message.get("content")
    if message.get("role") == "tool":
        error = message.get("error")
        failed = text_of(error.get("message")) if isinstance(error, dict) else None
        draft.answer(message.get("tool_call_id"), _whole(content, attached), failed=failed)
        return
    for part in content if isinstance(content, list) else [content]:
        found = _whole(part, attached)
        if isinstance(found, dict) and found.get("type") == "reasoning":
            draft.thought(found.get("reasoning"), found.get("signature"))
        elif isinstance(found, dict) and found.get("type") == "image":
            draft.media(found.get("image"), "image/*")
        elif found is not None:
            draft.part(found)
    for call in objects(message.get("tool_calls")):
        draft.call(call.get("id"), call.get("function"), call.get("arguments"))


def _whole(value: Any, attached: dict[str, Any]) -> Any:
    """A value with references to attachments replaced by their text."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, dict):
        return {key: _whole(item, attached) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item, attached) for item in value]
    return value


FORMAT = Format(
    NAME,
    "Inspect evaluation log",
    detect,
    read,
    is_data_set=True,
    keys=("samples", "epoch", "target", "messages", "output", "scores"),
)
