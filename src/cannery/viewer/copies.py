"""Messages as text, Markdown and JSON values, for copying."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cannery.messages import (
    AnyCanister,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    absent,
    digest,
)
from cannery.storage import Instructions, Metadata
from cannery.storage.settings import decode_tools
from cannery.viewer.arrangement import Placed
from cannery.wording import message_text

_FENCE = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def message_markdown(canister: AnyCanister) -> str:
    """A message in Markdown, under a heading with its role."""
    text = message_text(canister)
    role = canister.role.value
    if isinstance(canister, InvocationCanisterClass):
        return f"## {role} {canister.name}\n\n{_fenced(canister.arguments_text or '{}', 'json')}"
    if isinstance(canister, ResultCanisterClass):
        return f"## {role}{' (failed)' if canister.is_error else ''}\n\n{_fenced(text)}"
    if isinstance(canister.held, ReasoningContentClass):
        quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        return f"## {role} (reasoning)\n\n{quoted}"
    if isinstance(canister, DocumentCanisterClass) and canister.title is not absent:
        return f"## {role} {canister.title}\n\n{text}"
    return f"## {role}\n\n{text}"


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(mark) for mark in _FENCE.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def all_text(canisters: Iterable[AnyCanister]) -> str:
    """Messages as text, each with its role."""
    said = (f"{canister.role.value}: {message_text(canister)}" for canister in canisters)
    return "\n\n".join(said) + "\n"


def markdown_page(
    metadata: Metadata, canisters: Iterable[AnyCanister], versions: Iterable[Instructions] = ()
) -> str:
    """A conversation in Markdown: its title, its facts, and a heading for each message.

    Later versions of its instructions follow, with the position from which each applies.
    """
    facts = [f"id {metadata.id}", metadata.created.strftime("%Y-%m-%d %H:%M UTC")]
    facts += [metadata.model] if metadata.model else []
    facts += [f"#{tag}" for tag in metadata.tags]
    parts = [f"# {' '.join(metadata.title.split()) or 'Conversation'}", f"*{' · '.join(facts)}*"]
    parts += map(message_markdown, canisters)
    for version in versions:
        parts.append(f"# Instructions from message {version.position} on")
        parts += map(message_markdown, version.canisters)
        if version.tools is not None:
            names = ", ".join(tool.name for tool in decode_tools(version.tools))
            parts.append(f"*tools: {names or 'none'}*")
    return "\n\n".join(parts) + "\n"


def message_data(placed: Placed) -> dict[str, Any]:
    """A message as JSON values."""
    canister = placed.canister
    told: dict[str, Any] = {
        "position": placed.position,
        "role": canister.role.value,
        "time": canister.timestamp.isoformat(),
        "digest": digest(canister).hex(),
        "text": message_text(canister),
    }
    if canister.joined:
        told["joined"] = True
    if isinstance(canister, InvocationCanisterClass):
        told |= {
            "call": canister.identifier,
            "name": canister.name,
            "arguments": canister.arguments_text,
        }
    elif isinstance(canister, ResultCanisterClass):
        told |= {"answers": canister.invocation_id, "is_error": canister.is_error}
    elif canister.held is not absent:
        told["kind"] = canister.content.kind
        known = getattr(canister.content, "content_id", absent)
        if known is not absent:
            told["content_id"] = known
    return told
