"""Conversations in the forms that ``cannery export`` writes, each as it is needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cannery.cli.files import note, pretty
from cannery.cli.terminal import harmless, is_terminal
from cannery.storage import StoredConversation

Writer = Callable[[list[StoredConversation], str, argparse.Namespace], Iterator[bytes]]


def _markdown(
    chosen: list[StoredConversation], _: str, options: argparse.Namespace
) -> Iterator[bytes]:
    from cannery.cli.pages.markdown import markdown_page

    for conversation in chosen:
        page = markdown_page(conversation.metadata, conversation.hydrate())
        yield (page if options.output or not is_terminal() else harmless(page)).encode()


def _html(chosen: list[StoredConversation], _: str, __: Any) -> Iterator[bytes]:
    from cannery.cli.pages.html import html_page

    yield html_page([(each.metadata, each.hydrate()) for each in chosen]).encode()


def _lines(chosen: list[StoredConversation], form: str, _: Any) -> Iterator[bytes]:
    from cannery.cli.portable import portable

    for conversation in _parents_first(chosen):
        lines = [portable(canister) for canister in conversation.hydrate()]
        if form == "canisters":
            yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            continue
        facts = msgspec.to_builtins(conversation.metadata)
        yield msgspec.json.encode({**facts, "canisters": lines}) + b"\n"


def _parents_first(chosen: list[StoredConversation]) -> Iterator[StoredConversation]:
    """Whoever reads them makes a fork when its parent is there."""
    waiting = {each.identifier: each for each in chosen}
    while waiting:
        for identifier, each in list(waiting.items()):
            if each.parent not in waiting:
                yield waiting.pop(identifier)


def _dialect(
    chosen: list[StoredConversation], form: str, options: argparse.Namespace
) -> Iterator[bytes]:
    from cannery.cli.reports import describe, describe_many
    from cannery.messages import Request, absent
    from cannery.translation import nativize_request

    everything = []
    for conversation in chosen:
        model = conversation.metadata.model or absent
        rendered = nativize_request(Request(conversation.hydrate(), model), form)
        everything.append((conversation.identifier, rendered.losses, rendered.repairs))
        yield (pretty(rendered.body) if len(chosen) == 1 else rendered.body) + b"\n"
    _, losses, repairs = everything[0] if everything else ("", (), ())
    told = describe(losses, repairs) if len(chosen) == 1 else describe_many(everything)
    if told:
        note(told, quiet=options.quiet)


_WRITERS: dict[str, Writer] = {
    "markdown": _markdown,
    "html": _html,
    "jsonl": _lines,
    "canisters": _lines,
}


def written(
    chosen: list[StoredConversation], form: str, options: argparse.Namespace
) -> Iterator[bytes]:
    """The conversations in a form: one of ours, or a dialect."""
    return _WRITERS.get(form, _dialect)(chosen, form, options)
