"""llm: its content-addressed log store."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from peers.storing import Said, Storage

PACKAGE = "llm"
EXTRAS = ()


def _message(said: Said) -> Any:
    parts: Any = importlib.import_module("llm.parts")
    if said.image:
        attachment: Any = importlib.import_module("llm").Attachment
        picture = attachment(type="image/png", content=said.image)
        return parts.Message(role=said.role, parts=[parts.AttachmentPart(attachment=picture)])
    return parts.Message(role=said.role, parts=[parts.TextPart(text=said.text)])


def storage(folder: Path) -> Storage:
    """One thread in one database."""
    database: Any = importlib.import_module("sqlite_utils").Database(str(folder / "llm.sqlite"))
    store: Any = importlib.import_module("llm.logs").LogStore(database)
    thread = store.create_thread(name="bench")

    def append(said: Said) -> None:
        store.append(thread, [_message(said)])

    def fill(many: list[Said]) -> None:
        with database.atomic():
            store.append(thread, [_message(said) for said in many])

    def load() -> Any:
        return store.thread_messages(thread)

    def fork() -> None:
        store.fork(store.thread_tip(thread))

    return Storage(append, fill, load, database.conn.close, fork, store.verify)


def held(count: int) -> list[Any]:
    """Messages in the type of its conversations."""
    parts: Any = importlib.import_module("llm.parts")
    roles = ("user", "assistant")
    return [
        parts.Message(
            role=roles[number & 1], parts=[parts.TextPart(text=f"message number {number}")]
        )
        for number in range(count)
    ]
