"""Gemini CLI's sessions: a header and one message per line; a message of the model has its calls with their results.

The agent stores the sessions of a folder below ``~/.gemini/tmp`` and resumes one with ``gemini --resume ID``. It has
its own instructions, so those of the conversation are dropped as a loss. Resumed with Gemini CLI 0.61.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from cannery.exporters.bodies import conversation_body
from cannery.exporters.contract import Chat, Exporter, Written, instant, json_line
from cannery.wire.losses import Loss

NAME = "gemini_cli"


def write(chats: Sequence[Chat]) -> Iterator[Written]:
    """Write one session per conversation."""
    for chat in chats:
        body, rendered = conversation_body(chat.conversation, "gemini_generate", chat.model)
        session = chat.uuid()
        losses = (*rendered.losses, *_instructions(body))
        began = chat.created.strftime("%Y-%m-%dT%H-%M")
        folder = PurePath(chat.folder).name or "root"
        yield Written(
            f"session-{began}-{session[:8]}.jsonl",
            b"".join(_lines(chat, body.get("contents", []), session)),
            losses,
            rendered.repairs,
            f"put it into ~/.gemini/tmp/{folder}/chats, then: gemini --resume {session}",
        )


def _instructions(body: dict[str, Any]) -> Iterator[Loss]:
    if body.get("systemInstruction"):
        yield Loss(
            "INSTRUCTIONS_DROPPED",
            "lost",
            "systemInstruction",
            "Gemini CLI has instructions of its own",
        )


def _lines(chat: Chat, contents: list[Any], session: str) -> Iterator[bytes]:
    began, ended = instant(chat.created), instant(chat.updated)
    yield json_line(
        {
            "sessionId": session,
            "projectHash": hashlib.sha256(chat.folder.encode()).hexdigest(),
            "startTime": began,
            "lastUpdated": ended,
            "kind": "main",
        }
    )
    when = [each.timestamp for each in chat.conversation] or [chat.created]
    messages = list(_messages(chat, contents))
    for number, message in enumerate(messages):
        moment = when[min(number * len(when) // len(messages), len(when) - 1)]
        yield json_line(
            {"id": chat.uuid("message", number), "timestamp": instant(moment), **message}
        )


def _messages(chat: Chat, contents: list[Any]) -> Iterator[dict[str, Any]]:
    """Convert contents to messages: results move to their calls, and a content of results only gives no message."""
    calls: dict[str, dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for number, content in enumerate(contents):
        parts = [part for part in content.get("parts", ()) if isinstance(part, dict)]
        if content.get("role") == "model":
            found.append(_model(chat, parts, number, calls))
            continue
        left = [part for part in parts if not _given(part, calls)]
        if left:
            found.append({"type": "user", "content": left})
    yield from found


def _model(
    chat: Chat, parts: list[Any], number: int, calls: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    said = [part for part in parts if "functionCall" not in part]
    message: dict[str, Any] = {"type": "gemini", "content": _words(said), "thoughts": []}
    message |= {"tokens": None, "model": chat.model or ""}
    made = []
    for index, part in enumerate(part for part in parts if "functionCall" in part):
        call = part["functionCall"]
        name = call.get("id") or f"{call.get('name')}-{number}-{index}"
        held = {
            "id": name,
            "name": call.get("name"),
            "args": call.get("args") or {},
            "status": "cancelled",
            "timestamp": instant(chat.created),
            "resultDisplay": "",
        }
        calls[name] = held
        calls.setdefault(f"name {call.get('name')}", held)
        made.append(held)
    if made:
        message["toolCalls"] = made
    return message


def _words(parts: list[Any]) -> Any:
    """Plain text if all parts are text, as the agent writes it."""
    if all(part.keys() == {"text"} for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _given(part: dict[str, Any], calls: dict[str, dict[str, Any]]) -> bool:
    """Move a response to its call; return whether there is one."""
    response = part.get("functionResponse")
    if not isinstance(response, dict):
        return False
    call = calls.get(response.get("id") or "") or calls.pop(f"name {response.get('name')}", None)
    if call is None:
        return False
    named = {**response, "id": call["id"]}
    call.setdefault("result", []).append({"functionResponse": named})
    call["status"] = "error" if "error" in (response.get("response") or {}) else "success"
    return True


EXPORTER = Exporter(NAME, "Gemini CLI session", write, is_file=True)
