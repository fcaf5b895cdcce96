"""Codex' rollouts: a header, then lines of ``{timestamp, type, payload}`` with the items of Responses.

The agent finds a rollout by the id in its name below ``~/.codex/sessions``; ``codex exec resume ID`` continues it. It
displays earlier messages from events beside the items. Resumed with Codex 0.169.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from cannery.exporters.bodies import conversation_body
from cannery.exporters.contract import Chat, Exporter, Written, instant, json_line

NAME = "codex"
VERSION = "0.169.0"


def write(chats: Sequence[Chat]) -> Iterator[Written]:
    """Write one rollout per conversation."""
    for chat in chats:
        body, rendered = conversation_body(chat.conversation, "openai_responses", chat.model)
        items = body.get("input", [])
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        if body.get("instructions"):
            items = [{"role": "developer", "content": body["instructions"]}, *items]
        session = chat.uuid()
        day = chat.created.strftime("%Y/%m/%d")
        yield Written(
            f"rollout-{chat.created.strftime('%Y-%m-%dT%H-%M-%S')}-{session}.jsonl",
            b"".join(_lines(chat, items, session)),
            rendered.losses,
            rendered.repairs,
            f"put it into ~/.codex/sessions/{day}, then: codex exec resume {session}",
        )


def _lines(chat: Chat, items: list[Any], session: str) -> Iterator[bytes]:
    began = instant(chat.created)
    meta = {
        "id": session,
        "timestamp": began,
        "cwd": chat.folder,
        "originator": "codex_cli_rs",
        "cli_version": VERSION,
        "source": "cli",
    }
    yield json_line({"timestamp": began, "type": "session_meta", "payload": meta})
    when = [each.timestamp for each in chat.conversation] or [chat.created]
    for number, item in enumerate(items):
        moment = when[min(number * len(when) // max(len(items), 1), len(when) - 1)]
        yield _line(moment, "response_item", _item(item))
        for event in _events(item):
            yield _line(moment, "event_msg", event)


def _line(moment: datetime, kind: str, payload: Any) -> bytes:
    return json_line({"timestamp": instant(moment), "type": kind, "payload": payload})


def _item(item: Any) -> dict[str, Any]:
    """An item in Codex' form: messages with their type and a list of parts."""
    if "role" not in item:
        return dict(item)
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    role = "developer" if item["role"] == "system" else item["role"]
    return {"type": "message", **item, "role": role, "content": content}


def _events(item: Any) -> Iterator[dict[str, Any]]:
    """The events that the agent displays for a message of a resumed session."""
    text = _text(item.get("content"))
    if item.get("role") == "user" and text:
        yield {"type": "user_message", "message": text, "kind": "plain"}
    elif item.get("role") == "assistant" and text:
        yield {"type": "agent_message", "message": text}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, dict))


EXPORTER = Exporter(NAME, "Codex rollout", write, is_file=True)
