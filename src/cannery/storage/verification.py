"""Verify: every hash derived again, every line decoded, every reference followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.backends import Damage, Progress, referred
from cannery.errors import CanneryError

if TYPE_CHECKING:
    from cannery.storage.store import Store

_BATCH = 1000


class Report(Struct, frozen=True):
    """What was looked at, and everything that is wrong."""

    conversations: int
    messages: int
    contents: int
    content_bytes: int
    damages: tuple[Damage, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages


def verify(store: Store, progress: Progress | None = None) -> Report:
    """Look at everything in a store."""
    inspection = store.backend.inspect(progress)
    damages = list(inspection.damages)
    messages = 0
    identifiers = store.backend.identifiers()
    for done, identifier in enumerate(identifiers, 1):
        count, found = _verify_conversation(store, identifier)
        messages += count
        damages += found
        if progress:
            progress(done, len(identifiers))
    return Report(
        len(identifiers), messages, inspection.contents, inspection.content_bytes, tuple(damages)
    )


def _verify_conversation(store: Store, identifier: str) -> tuple[int, list[Damage]]:
    where = f"conversations/{identifier}"
    damages: list[Damage] = []
    try:
        if store.raw_metadata(identifier) is None:
            # A folder alone is what is left when making a conversation failed.
            count = store.backend.end(identifier, 0)
            gone = Damage(f"{where}/conversation.json", "the metadata is missing")
            return count, [gone] if count else []
        metadata = store.any_metadata(identifier)
        if metadata.parent is not None:
            _check_parent(store, metadata.parent, metadata.position, where, damages)
    except CanneryError as error:
        return 0, [Damage(f"{where}/conversation.json", str(error))]
    base = metadata.position
    reading = store.backend.read(identifier, base, base)
    damages += reading.damages
    log = f"{where}/messages.jsonl"
    for index, line in enumerate(reading.lines):
        if line is None:
            continue
        number = index + 1
        missing = [digest for digest in referred(line) if not store.backend.has(digest)]
        damages += [
            Damage(log, f"content sha256:{digest.hex()} is missing", number, base + index)
            for digest in missing
        ]
        problem = None if missing else _problem(store, line)
        if problem:
            damages.append(Damage(log, problem, number, base + index))
    return len(reading.lines), damages


def _check_parent(
    store: Store, parent: str, position: int, where: str, damages: list[Damage]
) -> None:
    above = store.any_metadata(parent)
    end = store.backend.end(parent, above.position)
    if position > end:
        problem = f"forks {parent!r} at {position}, which ends at {end}"
        damages.append(Damage(f"{where}/conversation.json", problem))


def _problem(store: Store, line: bytes) -> str | None:
    try:
        store.decoder.decode([line])
    except (CanneryError, UnicodeError) as error:
        return str(error)
    return None
