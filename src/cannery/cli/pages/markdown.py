"""A conversation as Markdown: a heading for each turn, calls and results as code."""

from __future__ import annotations

import re

from cannery.cli.canisters import heading, wording
from cannery.messages import (
    AnyCanister,
    Conversation,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
)
from cannery.storage import Metadata

_FENCE = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def markdown_page(metadata: Metadata, conversation: Conversation) -> str:
    """All of a conversation."""
    facts = [f"id {metadata.id}", metadata.created.strftime("%Y-%m-%d %H:%M UTC")]
    facts += [metadata.model] if metadata.model else []
    facts += [f"#{tag}" for tag in metadata.tags]
    parts = [f"# {' '.join(metadata.title.split()) or 'Conversation'}", f"*{' · '.join(facts)}*"]
    parts += [_turn(canister) for canister in conversation]
    return "\n\n".join(parts) + "\n"


def _turn(canister: AnyCanister) -> str:
    title = heading(canister)
    text = wording(canister)
    if isinstance(canister, InvocationCanisterClass):
        return f"## {title}\n\n{_fenced(canister.arguments_text or '{}', 'json')}"
    if isinstance(canister, ResultCanisterClass):
        return f"## {title}\n\n{_fenced(text)}"
    if isinstance(canister.held, ReasoningContentClass):
        quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        return f"## {title} (reasoning)\n\n{quoted}"
    return f"## {title}\n\n{text}"


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(mark) for mark in _FENCE.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
