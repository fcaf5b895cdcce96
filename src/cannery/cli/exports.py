"""Writes conversations in the forms of ``cannery export``, lazily.

Every form is written from the same conversations, which are redacted first if requested. An export contains nothing
that is not in them, and no settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from cannery.backends import Metadata
from cannery.cli.complaints import Complaint
from cannery.cli.files import note, pretty
from cannery.cli.recognition import instructions_data
from cannery.cli.terminal import harmless, is_terminal
from cannery.messages import Conversation
from cannery.redaction import Redactor, redact_conversation, redact_metadata
from cannery.storage import Instructions, StoredConversation
from cannery.storage.instructions import told_versions
from cannery.wire.losses import Loss, Repair
from cannery.wording import counted

Told = list[tuple[str, Sequence[Loss], Sequence[Repair]]]


class Exported(NamedTuple):
    """One conversation to export: its metadata, its messages, and later versions of its instructions."""

    metadata: Metadata
    conversation: Conversation
    versions: list[Instructions]


class Piece(NamedTuple):
    """A piece of an export: bytes, the name of the file if it is one, and advice on its use."""

    data: bytes
    name: str = ""
    hint: str = ""


class Order(NamedTuple):
    """The requested form and options; ``told`` collects losses and repairs."""

    form: str
    options: argparse.Namespace
    is_alone: bool
    told: Told


Writer = Callable[[Iterator[Exported], Order], Iterator[Piece]]


def written(
    chosen: list[StoredConversation],
    form: str,
    options: argparse.Namespace,
    redactor: Redactor | None = None,
) -> Iterator[Piece]:
    """Write the conversations in a form: one of ours, an exporter's, or a dialect."""
    from cannery.exporters import exporter_names

    order = Order(form, options, len(chosen) == 1, [])
    writer = _exported if form in exporter_names() else _WRITERS.get(form, _dialect)
    in_order = _parents_first(chosen) if form == "jsonl" else iter(chosen)
    yield from writer(_prepared(in_order, redactor), order)
    _report_losses(order)


def _prepared(
    chosen: Iterator[StoredConversation], redactor: Redactor | None
) -> Iterator[Exported]:
    for conversation in chosen:
        metadata, said = conversation.metadata, conversation.hydrate()
        # The first version is among the messages.
        versions = told_versions(conversation.instructions())[1:]
        if redactor is not None:
            metadata = redact_metadata(metadata, redactor)
            said = redact_conversation(said, redactor)
            versions = [_redacted(version, redactor) for version in versions]
        yield Exported(metadata, Conversation(said), versions)


def _redacted(version: Instructions, redactor: Redactor) -> Instructions:
    tools = version.tools
    if tools is not None:
        tools = msgspec.json.encode(redactor.value(msgspec.json.decode(tools)))
    # Settings are not exported.
    return Instructions(version.position, redact_conversation(version.canisters, redactor), tools)


def _report_losses(order: Order) -> None:
    from cannery.cli.reports import describe, describe_many

    if not order.told:
        return
    _, losses, repairs = order.told[0]
    text = describe(losses, repairs) if len(order.told) == 1 else describe_many(order.told)
    if text:
        note(text, quiet=order.options.quiet)


def _markdown(conversations: Iterator[Exported], order: Order) -> Iterator[Piece]:
    from cannery.viewer.copies import markdown_page

    for each in conversations:
        page = markdown_page(each.metadata, each.conversation, each.versions)
        is_file = bool(order.options.output) or not is_terminal()
        yield Piece((page if is_file else harmless(page)).encode())


def _html(conversations: Iterator[Exported], _: Order) -> Iterator[Piece]:
    try:
        from cannery.viewer.static import static_page
    except ImportError as error:
        missing = f"the viewer is not installed ({error.name} is missing)"
        raise Complaint(missing, "pip install 'cannery[viewer]'") from None
    pages = [(each.metadata, each.conversation) for each in conversations]
    yield Piece(b"".join(static_page(pages)))


def _jsonl(conversations: Iterator[Exported], _: Order) -> Iterator[Piece]:
    from cannery.storage.portable import conversation_data

    for each in conversations:
        told = conversation_data(each.metadata, each.conversation)
        if each.versions:
            told["instructions"] = instructions_data(each.versions)
        yield Piece(msgspec.json.encode(told) + b"\n")


def _canisters(conversations: Iterator[Exported], order: Order) -> Iterator[Piece]:
    """One canister per line; with several conversations each line names its conversation."""
    from cannery.storage.portable import portable

    for each in conversations:
        border = {} if order.is_alone else {"conversation": each.metadata.id}
        lines = [{**border, **portable(canister)} for canister in each.conversation]
        yield Piece(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _parents_first(chosen: list[StoredConversation]) -> Iterator[StoredConversation]:
    """Order the conversations so that each parent precedes its forks, which an import needs."""
    waiting = {each.identifier: each for each in chosen}
    while waiting:
        for identifier, each in list(waiting.items()):
            if each.parent not in waiting:
                yield waiting.pop(identifier)


def _dialect(conversations: Iterator[Exported], order: Order) -> Iterator[Piece]:
    from cannery.exporters import conversation_body

    for each in conversations:
        body, rendered = conversation_body(each.conversation, order.form, each.metadata.model)
        order.told.append((each.metadata.id, rendered.losses, rendered.repairs))
        data = msgspec.json.encode(body)
        yield Piece((pretty(data) if order.is_alone else data) + b"\n")


def _exported(conversations: Iterator[Exported], order: Order) -> Iterator[Piece]:
    from pathlib import Path

    from cannery.exporters import Chat, find_exporter

    exporter = find_exporter(order.form)
    folder = "/" if order.options.redact else str(Path.cwd())
    chats = [
        Chat(
            metadata.id,
            conversation,
            metadata.created,
            metadata.updated,
            metadata.title,
            metadata.model,
            folder,
            metadata.parent,
            metadata.position,
        )
        for metadata, conversation, _ in conversations
    ]
    for each in exporter.write(chats):
        order.told.append((each.name, each.losses, each.repairs))
        yield Piece(each.data, each.name if exporter.is_file else "", each.hint)
    if chats and not order.told:
        told = f"no {exporter.title} in {counted(len(chats), 'conversation')}"
        note(f"{told}: {exporter.lack}", quiet=order.options.quiet)


_WRITERS: dict[str, Writer] = {
    "markdown": _markdown,
    "html": _html,
    "jsonl": _jsonl,
    "canisters": _canisters,
}
