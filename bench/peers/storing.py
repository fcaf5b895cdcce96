"""The operations of a store that are compared, and two stores without a library: a bare JSONL file and SQLite."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

WHEN = "2026-01-01T00:00:00Z"


class Said(NamedTuple):
    """One message of the corpus: a role and a text, or an image."""

    role: str
    text: str = ""
    image: bytes = b""

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return "data:image/png;base64," + base64.b64encode(self.image).decode()


class Storage(NamedTuple):
    """A store with one conversation."""

    append: Callable[[Said], object]  # one message, durable when it returns
    fill: Callable[[list[Said]], object]  # many messages, as fast as possible
    load: Callable[[], object]  # all messages, in the form that a caller receives
    close: Callable[[], object]
    fork: Callable[[], object] | None = None  # a second conversation with the same history
    verify: Callable[[], object] | None = None  # recompute every hash


def inline(said: Said) -> bytes:
    """A message as a line of JSON with inline content, images as base64."""
    content: dict[str, Any] = {"type": "text", "text": said.text}
    if said.image:
        data = base64.b64encode(said.image).decode()
        content = {"type": "image", "mime_type": "image/png", "data": data}
    return json.dumps({"role": said.role, "content": content, "timestamp": WHEN}).encode() + b"\n"


def jsonl(folder: Path) -> Storage:
    """The baseline: one write and one fdatasync per message, read with the standard library."""
    path = folder / "messages.jsonl"
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def append(said: Said) -> None:
        os.write(fd, inline(said))
        os.fdatasync(fd)

    def fill(many: list[Said]) -> None:
        os.write(fd, b"".join(map(inline, many)))
        os.fdatasync(fd)

    def load() -> list[Any]:
        with path.open("rb") as file:
            return [json.loads(line) for line in file]

    def fork() -> None:
        copy = folder / "fork.jsonl"
        shutil.copyfile(path, copy)
        with copy.open("rb") as file:
            os.fdatasync(file.fileno())

    return Storage(append, fill, load, lambda: os.close(fd), fork)


def sqlite(folder: Path) -> Storage:
    """SQLite in WAL mode with full syncs, one row per message."""
    connection = sqlite3.connect(folder / "messages.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation INTEGER, body TEXT)"
    )
    query = "INSERT INTO messages (conversation, body) VALUES (0, ?)"

    def append(said: Said) -> None:
        connection.execute(query, (inline(said).decode(),))

    def fill(many: list[Said]) -> None:
        connection.execute("BEGIN")
        connection.executemany(query, [(inline(said).decode(),) for said in many])
        connection.execute("COMMIT")

    def load() -> list[Any]:
        rows = connection.execute("SELECT body FROM messages WHERE conversation = 0 ORDER BY id")
        return [json.loads(body) for (body,) in rows]

    def fork() -> None:
        copied = "SELECT 1, body FROM messages WHERE conversation = 0 ORDER BY id"
        connection.execute(f"INSERT INTO messages (conversation, body) {copied}")

    return Storage(append, fill, load, connection.close, fork)
