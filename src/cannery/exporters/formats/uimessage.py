"""Vercel AI SDK chats: one ``{id, title, messages}`` per line; a message has an id, a role and typed parts.

A message is a ``UIMessage`` of the SDK. A call and its result are one part of the assistant's message, of the type
``dynamic-tool``. As in ``ui-messages.ts`` of vercel/ai 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from cannery.exporters.contract import Chat, Exporter, Written, json_line
from cannery.messages import (
    AnyCanister,
    AnyContent,
    AudioContentClass,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    ResultCanisterClass,
    Role,
    TextualContentClass,
    VideoContentClass,
    absent,
)
from cannery.messages.json_text import decode_json
from cannery.wire.losses import Loss
from cannery.wire.media import data_url, standard_base64

NAME = "uimessage"
_ROLES = {Role.User: "user", Role.Supervisor: "system", Role.Document: "user"}


def write(chats: Sequence[Chat]) -> Iterator[Written]:
    """Write one chat per line."""
    for chat in chats:
        losses: list[Loss] = []
        messages = _messages(chat, losses)
        value: dict[str, Any] = {"id": chat.identifier, "messages": messages}
        if chat.title:
            value["title"] = chat.title
        yield Written(f"{chat.identifier}.jsonl", json_line(value), tuple(losses))


def _messages(chat: Chat, losses: list[Loss]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}
    for number, canister in enumerate(chat.conversation):
        if isinstance(canister, ResultCanisterClass) and canister.invocation_id in calls:
            _answer(calls.pop(canister.invocation_id), canister)
            continue
        role = _ROLES.get(canister.role, "assistant")
        is_same = bool(messages) and messages[-1]["role"] == role
        if not is_same or (role != "assistant" and not canister.joined):
            identifier = chat.uuid("message", number)
            messages.append({"id": identifier, "role": role, "parts": []})
        for part in _parts(canister, number, losses):
            messages[-1]["parts"].append(part)
            if part["type"] == "dynamic-tool" and part["state"] == "input-available":
                calls[part["toolCallId"]] = part
    return [message for message in messages if message["parts"]]


def _parts(canister: AnyCanister, number: int, losses: list[Loss]) -> Iterator[dict[str, Any]]:
    if isinstance(canister, InvocationCanisterClass):
        yield {
            "type": "dynamic-tool",
            "toolName": canister.name,
            "toolCallId": canister.identifier,
            "state": "input-available",
            "input": _value(canister.arguments_text),
        }
    elif isinstance(canister, ResultCanisterClass):
        part: dict[str, Any] = {"type": "dynamic-tool", "toolName": "unknown"}
        part |= {"toolCallId": canister.invocation_id, "input": {}}
        _answer(part, canister)
        yield part
    elif canister.held is not absent:
        yield from _content(canister.content, number, losses)


def _answer(part: dict[str, Any], result: ResultCanisterClass) -> None:
    """Add the result to the part of its call."""
    output: Any = "" if result.held is absent else _output(result.content)
    if result.error is not absent:
        part["state"] = "output-error"
        part["errorText"] = output if isinstance(output, str) else str(output)
    else:
        part["state"], part["output"] = "output-available", output


def _output(content: AnyContent) -> Any:
    if isinstance(content, TextualContentClass):
        return content.text
    if isinstance(content, DataContentClass):
        return decode_json(content.json)
    parts = content.parts if isinstance(content, PartsContentClass) else (content,)
    return [_output_part(part) for part in parts]


def _output_part(content: AnyContent) -> dict[str, Any]:
    if isinstance(content, ImageContentClass) and not isinstance(content.payload, Location):
        data = standard_base64(content.payload)
        source = {"type": "base64", "media_type": content.mime_type, "data": data}
        return {"type": "image", "source": source}
    (part,) = list(_content(content, 0, [])) or [{"type": "text", "text": ""}]
    return part


def _content(content: AnyContent, number: int, losses: list[Loss]) -> Iterator[dict[str, Any]]:
    match content:
        case TextualContentClass() | RefusalContentClass():
            yield {"type": "text", "text": content.text}
        case ReasoningContentClass():
            if content.text:
                yield {"type": "reasoning", "text": content.text}
            if content.signature or content.encrypted:
                losses.append(
                    Loss("SIGNATURE_DROPPED", "lost", f"conversation[{number}]", "of a thought")
                )
        case ImageContentClass() | AudioContentClass() | VideoContentClass() | FileContentClass():
            yield _file(content)
        case DataContentClass():
            yield {"type": "text", "text": content.json}
        case OpaqueContentClass():
            yield {"type": f"data-{content.tag}", "data": decode_json(content.json)}
        case PartsContentClass():
            for part in content.parts:
                yield from _content(part, number, losses)
        case _:
            assert_never(content)


def _file(content: Any) -> dict[str, Any]:
    is_place = isinstance(content.payload, Location)
    url = content.payload.value if is_place else data_url(content)
    part = {
        "type": "file",
        "mediaType": content.mime_type or "application/octet-stream",
        "url": url,
    }
    name = getattr(content, "name", None)
    return {**part, "filename": name} if name else part


def _value(arguments: str) -> Any:
    """The arguments of a call as a value; invalid JSON stays text."""
    try:
        return decode_json(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments


EXPORTER = Exporter(NAME, "Vercel AI SDK messages", write)
