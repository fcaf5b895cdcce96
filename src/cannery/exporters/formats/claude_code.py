"""Claude Code's transcripts: lines chained by ``parentUuid``, each with a message of Anthropic's API.

The agent finds a session by its id in the folder for its working directory, and resumes it with ``claude --resume ID``.
It has its own instructions, so those of the conversation are dropped as a loss. Resumed with Claude Code 2.1.197.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cannery.exporters.bodies import conversation_body
from cannery.exporters.contract import Chat, Exporter, Written, instant, json_line
from cannery.wire.losses import Loss
from cannery.wire.markers import system_envelope

NAME = "claude_code"
VERSION = "2.1.197"
_NO_MODEL = "<synthetic>"


def write(chats: Sequence[Chat]) -> Iterator[Written]:
    """Write one transcript per conversation."""
    for chat in chats:
        body, rendered = conversation_body(chat.conversation, "anthropic_messages", chat.model)
        session = chat.uuid()
        losses = (*rendered.losses, *_instructions(body))
        yield Written(
            f"{session}.jsonl",
            b"".join(_lines(chat, body["messages"], session)),
            losses,
            rendered.repairs,
            f"put it into ~/.claude/projects/{project(chat.folder)}, then: claude --resume {session}",
        )


def project(folder: str) -> str:
    """Claude Code's name for the folder of a project."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


def _instructions(body: dict[str, Any]) -> Iterator[Loss]:
    if body.get("system"):
        yield Loss(
            "INSTRUCTIONS_DROPPED", "lost", "system", "Claude Code has instructions of its own"
        )


def _lines(chat: Chat, messages: list[Any], session: str) -> Iterator[bytes]:
    when = [each.timestamp for each in chat.conversation] or [chat.created]
    above: str | None = None
    spoken = [message for message in messages if message["role"] in ("user", "assistant")]
    for number, message in enumerate(messages):
        own = chat.uuid("line", number)
        moment = when[min(number * len(when) // max(len(messages), 1), len(when) - 1)]
        yield json_line(
            {
                "parentUuid": above,
                "isSidechain": False,
                "userType": "external",
                "cwd": chat.folder,
                "sessionId": session,
                "version": VERSION,
                "gitBranch": "",
                **_said(chat, message, number),
                "uuid": own,
                "timestamp": instant(moment),
            }
        )
        above = own
    if chat.title and spoken:
        yield json_line({"type": "custom-title", "customTitle": chat.title, "sessionId": session})


def _said(chat: Chat, message: dict[str, Any], number: int) -> dict[str, Any]:
    """The fields of a line; a system message is wrapped in a marked envelope."""
    if message["role"] == "system":
        # The agent accepts it only as a user turn.
        text = system_envelope(_text(message["content"]))
        return {"type": "user", "isMeta": True, "message": {"role": "user", "content": text}}
    if message["role"] != "assistant":
        return {"type": "user", "message": {"role": "user", "content": message["content"]}}
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    is_calling = any(block.get("type") == "tool_use" for block in content)
    return {
        "type": "assistant",
        "message": {
            "id": f"msg_{chat.uuid('message', number).replace('-', '')[:24]}",
            "type": "message",
            "role": "assistant",
            "model": chat.model or _NO_MODEL,
            "content": content,
            "stop_reason": "tool_use" if is_calling else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in content)


EXPORTER = Exporter(NAME, "Claude Code transcript", write, is_file=True)
