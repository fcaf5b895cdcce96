"""The input and output of an exporter; a format is a module of ``formats`` with one value, ``EXPORTER``."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from cannery.messages import Conversation
from cannery.messages.json_text import utf8
from cannery.wire.losses import Loss, Repair

# A fixed namespace, so that exporting twice gives the same ids.
_SPACE = uuid.UUID("6f1c1a52-3f0e-4a53-9a34-6c1d2b8e7a10")


class Chat(Struct, frozen=True):
    """One conversation to export; ``folder`` is the working directory for its agent."""

    identifier: str
    conversation: Conversation
    created: datetime
    updated: datetime
    title: str = ""
    model: str | None = None
    folder: str = "/"
    parent: str | None = None
    position: int = 0

    def uuid(self, *what: object) -> str:
        """A deterministic id for a part of it."""
        return str(uuid.uuid5(_SPACE, " ".join(map(str, (self.identifier, *what)))))


class Written(NamedTuple):
    """One piece of an export: the file name that its program expects, the bytes, losses and repairs."""

    name: str
    data: bytes
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    # Advice on the use of the file.
    hint: str = ""


class Exporter(NamedTuple):
    """One format; with ``is_file`` each conversation is a file of its own, otherwise all are lines of one file."""

    name: str
    title: str
    write: Callable[[Sequence[Chat]], Iterator[Written]]
    is_file: bool = False
    # The reason to report when nothing was written.
    lack: str = "they have no message"


def json_line(value: Any) -> bytes:
    """A value as a line of compact JSON."""
    import json

    return utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + b"\n"


def instant(moment: datetime) -> str:
    """A time in the format of agents: UTC with milliseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
