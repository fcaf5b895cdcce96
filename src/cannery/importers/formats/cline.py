"""Cline tasks: ``{version, messages, system_prompt}`` with messages of Anthropic's API, their time, model and metrics.

The user's text is inside ``<user_input>``. Older tasks, and those of Roo Code and Kilo Code, are a bare array of the
same messages (``api_conversation_history.json``), which ``bare_messages`` reads. Seen with Cline 3.0.65.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import is_message, read_messages
from cannery.importers.contract import Detection, Format, Found, Imported, Sample
from cannery.importers.pieces import moment, objects, text_of, unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import supervisor

NAME = "cline"
_TAKEN = ("messages", "system_prompt", "systemPrompt", "sessionId", "updated_at")


def detect(sample: Sample) -> Detection | None:
    """Messages, a system prompt, and a session or agent."""
    for record in sample.objects:
        messages = objects(record.get("messages"))
        is_task = "system_prompt" in record and ("sessionId" in record or "agent" in record)
        if is_task and messages and all(map(is_message, messages)):
            return Detection(0.9, "it has messages, a system_prompt and a sessionId")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per task."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            yield unknown_record("no messages", record.place, value)
            continue
        yield from _task(value, source.place_of(record))


def _task(task: dict[str, Any], place: str) -> Iterator[Found]:
    spoken = read_messages(task["messages"], NAME, place, "anthropic_messages")
    yield from spoken.unknown
    turns = spoken.turns
    system = text_of(task.get("system_prompt"))
    if system:
        turns = [("system_prompt", (supervisor(system),)), *turns]
    if turns:
        turns[0] = turns[0][0], with_fields(turns[0][1], NAME, task, *_TAKEN)
    times = [moment(message.get("ts")) for message in objects(task["messages"])]
    created = next(filter(None, times), None)
    name = text_of(task.get("sessionId")) or place
    yield Imported(name, linear(turns), created=created, model=spoken.model)


FORMAT = Format(
    NAME,
    "Cline task",
    detect,
    read,
    "anthropic_messages",
    keys=("messages", "system_prompt", "sessionId", "modelInfo", "metrics", "ts"),
    folders=(
        ".cline/data/sessions",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
        ".config/Code/User/globalStorage/kilocode.kilo-code/tasks",
        "Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
        "Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
        "Library/Application Support/Code/User/globalStorage/kilocode.kilo-code/tasks",
    ),
)
