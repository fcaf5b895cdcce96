"""openai-agents: its SQLite session."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

from peers.storing import Said, Storage

PACKAGE = "openai-agents"
EXTRAS = ()


def _item(said: Said) -> Any:
    if said.image:
        part = {"type": "input_image", "image_url": said.data_url, "detail": "auto"}
        return {"role": said.role, "content": [part]}
    return {"role": said.role, "content": said.text}


def storage(folder: Path) -> Storage:
    """One session in one database."""
    session: Any = importlib.import_module("agents").SQLiteSession(
        "bench", folder / "agents.sqlite"
    )
    loop = asyncio.new_event_loop()

    def append(said: Said) -> None:
        loop.run_until_complete(session.add_items([_item(said)]))

    def fill(many: list[Said]) -> None:
        loop.run_until_complete(session.add_items([_item(said) for said in many]))

    def close() -> None:
        session.close()
        loop.close()

    return Storage(append, fill, lambda: loop.run_until_complete(session.get_items()), close)


def held(count: int) -> list[Any]:
    """Items in the form of its runs: plain dicts."""
    roles = ("user", "assistant")
    return [{"role": roles[n & 1], "content": f"message number {n}"} for n in range(count)]
