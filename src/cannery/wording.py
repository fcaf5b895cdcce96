"""Text for people, the same in the terminal, on pages and in exports.

Messages as text, media as kind, type and size, numbers with their nouns, amounts of money.
"""

from __future__ import annotations

from typing import Any, assert_never

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
    TextualContentClass,
    VideoContentClass,
    absent,
)


def message_text(canister: AnyCanister) -> str:
    """The content of a message, as text."""
    if isinstance(canister, InvocationCanisterClass):
        return f"{canister.name}({canister.arguments_text})"
    return "" if canister.held is absent else content_text(canister.content)


def content_text(content: AnyContent) -> str:
    """A content as text; media as kind, type and size."""
    match content:
        case TextualContentClass() | RefusalContentClass():
            return content.text
        case ImageContentClass() | AudioContentClass() | VideoContentClass() | FileContentClass():
            return media_text(content)
        case ReasoningContentClass():
            return content.shown or "[reasoning that only its origin can read]"
        case DataContentClass():
            return content.json
        case OpaqueContentClass():
            return f"[{content.dialect} {content.tag}] {content.json}"
        case PartsContentClass():
            return "\n".join(content_text(part) for part in content.parts)
        case _:
            assert_never(content)


def media_text(content: Any) -> str:
    """Media as kind, name, type, and size or place."""
    payload = content.payload
    name = getattr(content, "name", None)
    named = f" {name}" if name else ""
    kind = content.mime_type or content.kind
    if isinstance(payload, Location):
        return f"[{content.kind}{named}: {kind} at {payload.value}]"
    return f"[{content.kind}{named}: {kind}, {size_text(payload_size(payload))}]"


def payload_size(payload: Any) -> int:
    """The number of bytes in a payload, without loading it; -1 if unknown."""
    if isinstance(payload, bytes):
        return len(payload)
    if isinstance(payload, Base64):
        return len(payload.text) * 3 // 4
    stored: int = getattr(payload, "size", -1)
    return stored


def size_text(number: float) -> str:
    """A number of bytes."""
    if number < 0:
        return "unknown size"
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return (
                f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
            )
        number /= 1000
    return f"{number:.1f} TB"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 message``, ``12,000 messages``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def dollars(amount: float | None) -> str:
    """An amount of money; small ones keep their digits."""
    if amount is None:
        return "-"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.6f}".rstrip("0").rstrip(".")
