"""Prints how the gateway recognised the exchanges of a conversation, and their instructions."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from cannery.cli.files import write_json
from cannery.cli.terminal import harmless, page, paint
from cannery.storage import Instructions, StoredConversation
from cannery.storage.instructions import told_versions

_REASONS = {
    "named": "the caller named the conversation",
    "session": "the session of the program, and the messages in it",
    "history": "what the model said, in the history that was sent",
    "rewritten": "what was said, in a history that the client wrote differently",
    "end": "the end of this conversation, in a history that began otherwise",
    "question": "the same question, under the same instructions",
    "compaction": "a summary of its session took the place of the history",
    "new": "nothing: it begins here",
}


def show_why(options: argparse.Namespace, conversation: StoredConversation) -> None:
    """Print how each exchange of a conversation was recognised."""
    metadata = conversation.metadata
    facts: dict[str, Any] = {
        "id": metadata.id,
        "kind": metadata.kind,
        "client": f"{metadata.client} {metadata.client_version}".strip(),
        "session": metadata.session,
        "key": metadata.scope,
        "parent": metadata.parent,
        "shares": metadata.position,
        "began_at": metadata.began_at,
        "call": metadata.call,
    }
    exchanges = conversation.exchanges()
    if options.json:
        write_json({**facts, "exchanges": [msgspec.to_builtins(one) for one in exchanges]})
        return
    lines = [f"{name}: {harmless(str(value))}" for name, value in facts.items() if value]
    for one in exchanges:
        why = _REASONS.get(one.why, one.why) or "it was not recorded by a gateway"
        told = [
            f"message {one.position}",
            harmless(why),
            harmless(one.model),
            harmless(one.request),
        ]
        lines.append("  ".join(filter(None, told)))
    if not exchanges:
        lines.append("nothing is known of its exchanges: it was imported, or appended to directly")
    page("\n".join(lines), paged=not options.no_pager)


def show_instructions(options: argparse.Namespace, conversation: StoredConversation) -> None:
    """Print each version of the instructions and tools of a conversation."""
    versions = conversation.instructions()
    if options.json:
        write_json(instructions_data(versions))
        return
    blocks = []
    for version in told_versions(versions):
        tools = [] if version.tools is None else msgspec.json.decode(version.tools)
        named = ", ".join(str(tool.get("name")) for tool in tools)
        blocks.append(paint(f"from message {version.position} on", "bold"))
        blocks += [harmless(_text(canister)) for canister in version.canisters]
        blocks += [f"tools: {harmless(named) or 'none'}"] if version.tools is not None else []
    page("\n\n".join(blocks), paged=not options.no_pager)


def instructions_data(versions: list[Instructions]) -> list[dict[str, Any]]:
    """Versions of instructions as JSON values."""
    return [
        {
            "position": version.position,
            "instructions": [
                {"role": canister.role.value, "text": _text(canister)}
                for canister in version.canisters
            ],
            "tools": None if version.tools is None else msgspec.Raw(version.tools),
        }
        for version in told_versions(versions)
    ]


def _text(canister: Any) -> str:
    return str(getattr(canister, "text", ""))


def show_tree(options: argparse.Namespace, conversation: StoredConversation) -> None:
    """Print the tree of forks around a conversation."""
    from cannery.cli.conversation_text import painted_tree

    tree = conversation.tree
    if options.json:
        write_json(msgspec.to_builtins(tree))
    else:
        page(painted_tree(tree.draw(conversation.identifier)), paged=not options.no_pager)
