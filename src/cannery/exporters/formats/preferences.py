"""Preference rows from forks: ``{prompt, chosen, rejected}``, each a list of messages as in Chat Completions.

Where a conversation and its forks continue with different answers to the same question, the answer of the longest
branch is chosen, among equally long ones that of the most recently changed; each other answer is rejected in a row of
its own. A fork with another question gives no row. Shape as in TRL's "dataset formats" (read 2026-11-18).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cannery.exporters.bodies import conversation_body
from cannery.exporters.contract import Chat, Exporter, Written, json_line
from cannery.messages import AnyCanister, Conversation, Role
from cannery.wire.losses import Loss

NAME = "preferences"
_ANSWERS = (Role.Assistant, Role.Invocation)


def write(chats: Sequence[Chat]) -> Iterator[Written]:
    """Write one row for each rejected answer."""
    known = {chat.identifier: chat for chat in chats}
    groups: dict[tuple[str, int], list[Chat]] = {}
    for chat in chats:
        if chat.parent in known:
            groups.setdefault((chat.parent or "", chat.position), []).append(chat)
    for (parent, position), forks in groups.items():
        yield from _rows(known[parent], position, forks)


def _rows(parent: Chat, position: int, forks: list[Chat]) -> Iterator[Written]:
    branches = [chat for chat in (parent, *forks) if _answer(chat, position)]
    if len(branches) < 2 or not position:
        return
    branches.sort(key=lambda chat: (len(chat.conversation), chat.updated), reverse=True)
    prompt, lost = _messages(branches[0].conversation[:position])
    chosen, more = _messages(_answer(branches[0], position))
    lost += more
    told = [chosen]
    for branch in branches[1:]:
        rejected, more = _messages(_answer(branch, position))
        if rejected not in told:
            told.append(rejected)
            row = {"prompt": prompt, "chosen": chosen, "rejected": rejected}
            yield Written(f"{branch.identifier}.jsonl", json_line(row), tuple(lost + more))


def _answer(chat: Chat, position: int) -> list[AnyCanister]:
    """The canisters of the model from a position on, up to the first of another role."""
    said: list[AnyCanister] = []
    for canister in chat.conversation[position:]:
        if canister.role not in _ANSWERS:
            break
        said.append(canister)
    return said


def _messages(canisters: Sequence[AnyCanister]) -> tuple[list[Any], list[Loss]]:
    body, rendered = conversation_body(Conversation(canisters), "openai_chat")
    return body["messages"], list(rendered.losses)


EXPORTER = Exporter(
    NAME,
    "preference rows",
    write,
    lack="no fork among them has another answer to the same question",
)
