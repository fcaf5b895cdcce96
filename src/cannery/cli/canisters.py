"""How a canister is shown: one line in a list, or in full."""

from __future__ import annotations

from typing import Any, assert_never

from cannery.cli.tables import size
from cannery.cli.terminal import ROLE_COLOURS, harmless, one_line, paint, width
from cannery.messages import (
    AnyCanister,
    AnyContent,
    AudioContentClass,
    Base64,
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
    TextualContentClass,
    VideoContentClass,
    absent,
)


def headline(index: int, canister: AnyCanister) -> str:
    """A canister on one line: position, role, what it says."""
    role = canister.role.value
    said = one_line(wording(canister), max(width() - 20, 30))
    mark = "·" if canister.joined else " "
    return f"{index:4} {mark}{paint(f'{role:11}', ROLE_COLOURS[role])} {said}"


def wording(canister: AnyCanister) -> str:
    """What a canister says, as text."""
    if isinstance(canister, InvocationCanisterClass):
        return f"{canister.name}({canister.arguments_text})"
    return "" if canister.held is absent else content_text(canister.content)


def content_text(content: AnyContent) -> str:
    """A content as text; media as type and size."""
    match content:
        case TextualContentClass():
            return content.text
        case ImageContentClass() | AudioContentClass() | VideoContentClass() | FileContentClass():
            return media_line(content)
        case ReasoningContentClass():
            return content.text or "[reasoning that only its origin can read]"
        case RefusalContentClass():
            return content.text
        case DataContentClass():
            return content.json
        case OpaqueContentClass():
            return f"[{content.dialect} {content.tag}] {content.json}"
        case PartsContentClass():
            return "\n".join(content_text(part) for part in content.parts)
        case _:
            assert_never(content)


def media_line(content: Any) -> str:
    """Media as kind, type, size or place."""
    payload = content.payload
    name = getattr(content, "name", None)
    named = f" {name}" if name else ""
    kind = content.mime_type or content.kind
    if isinstance(payload, Location):
        return f"[{content.kind}{named}: {kind} at {payload.value}]"
    return f"[{content.kind}{named}: {kind}, {size(payload_size(payload))}]"


def payload_size(payload: Any) -> int:
    """How many bytes a payload has, without loading it."""
    if isinstance(payload, bytes):
        return len(payload)
    if isinstance(payload, Base64):
        return len(payload.text) * 3 // 4
    stored: int = payload.size
    return stored


def heading(canister: AnyCanister) -> str:
    """The role of a canister, with what belongs to it."""
    role = canister.role.value
    extra = ""
    if isinstance(canister, InvocationCanisterClass):
        extra = canister.name
    elif isinstance(canister, ResultCanisterClass) and canister.error is not absent:
        extra = "failed"
    elif getattr(canister, "title", absent) is not absent:
        extra = str(getattr(canister, "title", ""))
    elif getattr(canister, "rank", absent) == "developer":
        extra = "developer"
    return f"{role} {harmless(extra)}".rstrip()
