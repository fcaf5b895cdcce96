"""Google AI Studio prompts, as stored in Drive: ``{runSettings, systemInstruction, chunkedPrompt: {chunks}}``.

A chunk is a part of a turn by ``user`` or ``model``; reasoning is in chunks of its own (``isThought``). Files of Drive
are referred to by their ids.
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
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    usage_of,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "ai_studio"
_DRIVE = ("driveImage", "driveDocument", "driveVideo", "driveAudio", "youtubeVideo")
_MARKS = ("role", "text", "isThought", "tokenCount", "finishReason", "createTime", "parts")


def detect(sample: Sample) -> Detection | None:
    """Chunks with a role."""
    for record in sample.objects:
        if any("role" in chunk for chunk in _chunks(record)):
            return Detection(0.95, "it has a chunkedPrompt of chunks with a role")
    return None


def _chunks(record: dict[str, Any]) -> list[dict[str, Any]]:
    prompt = record.get("chunkedPrompt")
    return objects(prompt.get("chunks")) if isinstance(prompt, dict) else []


def read(source: Source) -> Iterator[Found]:
    """One conversation per prompt."""
    for record, value in source.values():
        if not isinstance(value, dict) or not _chunks(value):
            yield unknown_record("no chunks", record.place, value)
            continue
        yield from _prompt(source, value, source.place_of(record))


def _prompt(source: Source, value: dict[str, Any], place: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    settings = value.get("runSettings")
    model = text_of(settings.get("model")) if isinstance(settings, dict) else ""
    system = Draft(NAME, "system", None, unknown)
    instruction = value.get("systemInstruction")
    if isinstance(instruction, dict):
        system.text(instruction.get("text"))
        for part in objects(instruction.get("parts")):
            system.text(part.get("text"))
    turns.append(("system", system.done()))
    for number, chunk in enumerate(_chunks(value)):
        role = role_of(chunk.get("role"))
        if not role:
            yield unknown_record(UNREADABLE, f"{place}[{number}]", chunk, turns[-1][0])
            continue
        draft = Draft(NAME, role, moment(chunk.get("createTime")), unknown)
        _take(draft, chunk)
        usage = usage_of(output=chunk.get("tokenCount")) if role == "assistant" else None
        made_by = model if role == "assistant" else None
        turns.append((f"#{number}", draft.done(model=made_by, usage=usage)))
    name = source.name.rpartition("/")[2].removesuffix(".json")
    taken = ("chunkedPrompt", "systemInstruction")
    nodes = nodes_with_fields(linear(turns), NAME, value, *taken)
    yield Imported(place, nodes, name, model=model or None, unknown=dict(unknown))


def _take(draft: Draft, chunk: dict[str, Any]) -> None:
    text = chunk.get("text")
    if not text:
        texts = [text_of(part.get("text")) for part in objects(chunk.get("parts"))]
        text = "".join(texts)
    if chunk.get("isThought") is True:
        draft.thought(text)
    else:
        draft.text(text)
    for key, found in chunk.items():
        if key in _DRIVE and isinstance(found, dict) and text_of(found.get("id")):
            draft.media(f"drive://{found['id']}", found.get("mimeType"))
        elif key == "inlineFile" and isinstance(found, dict) and text_of(found.get("data")):
            kind = text_of(found.get("mimeType"))
            draft.media(f"data:{kind};base64,{found['data']}", kind)
        elif key not in _MARKS and found:
            draft.strange(key, found)


FORMAT = Format(
    NAME,
    "Google AI Studio prompt",
    detect,
    read,
    "gemini_generate",
    keys=("chunkedPrompt", "chunks", "runSettings", "isThought"),
)
