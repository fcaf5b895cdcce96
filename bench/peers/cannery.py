"""Cannery: the public functions, including losses."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from peers import PAIRS, Pair, Translation
from peers.storing import WHEN, Said, Storage

PACKAGE = "cannery"
EXTRAS = ()

_cannery: Any = importlib.import_module("cannery")


def translations() -> dict[Pair, Translation]:
    """All pairs, by one public function."""

    def translate(source: str, target: str, body: bytes) -> bytes:
        # One capture refers to a response that only its provider has, which other policies refuse to send.
        rendered = _cannery.translate(body, source=source, target=target, policy="allow")
        written: bytes = rendered.body
        return written

    return {pair: partial(translate, *pair) for pair in PAIRS}


def appending(body: bytes) -> dict[str, Callable[[], object]]:
    """Append one message to a conversation that was written before, and write it again."""
    return {
        target: _appender(body, target) for target in dict.fromkeys(target for _, target in PAIRS)
    }


def _appender(body: bytes, target: str) -> Callable[[], object]:
    requests = [_cannery.normalize_request(body, "openai_chat")]
    _cannery.nativize_request(requests[0], target)

    def step() -> object:
        if len(requests) > 20:
            del requests[1:]  # the conversation keeps about four hundred messages
        make = _cannery.assistant if len(requests) % 2 else _cannery.user
        longer = requests[-1].conversation.append(make("And one message more."))
        requests.append(requests[-1].replace(conversation=longer))
        return _cannery.nativize_request(requests[-1], target)

    return step


def bulk() -> Translation:
    """The public function."""

    def translate(line: bytes) -> bytes:
        written: bytes = _cannery.translate(line, source="sharegpt", target="openai_chat").body
        return written

    return translate


def bulk_file() -> Callable[[bytes, BinaryIO], None]:
    """Many lines at once, as ``cannery translate`` handles a file: in blocks, on one core."""
    module: Any = importlib.import_module("cannery.cli.bulk")
    task = module.Task(source="sharegpt", target="openai_chat")

    def translate(data: bytes, sink: BinaryIO) -> None:
        blocks = module.blocks(io.BytesIO(data))
        sink.writelines(module.translate_block(block, task).output for block in blocks)

    return translate


def held(count: int) -> list[Any]:
    """Messages as an application creates them: with the builders, each with its own time."""
    makers = (_cannery.user, _cannery.assistant)
    return [makers[number & 1](f"message number {number}") for number in range(count)]


def reported(body: bytes, pair: Pair) -> list[str]:
    """The codes of the losses that a translation reports."""
    rendered = _cannery.translate(body, source=pair[0], target=pair[1])
    return sorted({loss.code for loss in rendered.losses})


def storage(folder: Path) -> Storage:
    """One conversation in a directory store with default settings."""
    return storage_at(str(folder / "store"))


def storage_in_one_file(folder: Path) -> Storage:
    """One conversation in a store in one SQLite file."""
    return storage_at(f"sqlite:{folder / 'store.db'}")


def storage_at(location: str) -> Storage:
    """One conversation in a store at a location."""
    opened = _cannery.open_store(location, cache_bytes=0)
    conversation = opened.create()
    when = datetime.fromisoformat(WHEN)
    makers = {"user": _cannery.user, "assistant": _cannery.assistant}

    def canister(said: Said) -> Any:
        if said.image:
            return _cannery.UserCanisterClass(
                _cannery.ImageContentClass(said.image, "image/png"), when
            )
        return makers[said.role](said.text, when)

    return Storage(
        lambda said: conversation.append(canister(said)),
        lambda many: conversation.append([canister(said) for said in many]),
        lambda: opened.get(conversation.identifier).hydrate(),
        opened.close,
        conversation.fork,
        opened.verify,
    )
