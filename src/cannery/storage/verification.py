"""Verify: every hash derived again, every line decoded, every reference followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.backends import Damage, Progress, referred
from cannery.errors import CanneryError
from cannery.storage.metadata import decode_metadata

if TYPE_CHECKING:
    from cannery.storage.store import Codec, Store


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
    identifiers = list(store.backend.identifiers())
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
        raw = store.raw_metadata(identifier)
        if raw is None:
            # A folder alone is what is left when making a conversation failed.
            count = store.backend.end(identifier, 0)
            gone = Damage(f"{where}/conversation.json", "the metadata is missing")
            return count, [gone] if count else []
        metadata = decode_metadata(raw, identifier)
        if not store.sees(metadata):
            return 0, []
        if metadata.parent is not None:
            _check_parent(store, metadata.parent, metadata.position, where, damages)
    except CanneryError as error:
        return 0, [Damage(f"{where}/conversation.json", str(error))]
    base = metadata.position
    reading = store.backend.read(identifier, base, base)
    damages += reading.damages
    log = f"{where}/messages.jsonl"
    codec = store.codec(metadata.scope)
    if not _is_sound(codec, reading.lines):
        for index, line in enumerate(reading.lines):
            if line is not None:
                problems = _problems(codec, line)
                damages += [Damage(log, problem, index + 1, base + index) for problem in problems]
    return len(reading.lines), damages


def _is_sound(codec: Codec, lines: Sequence[bytes | None]) -> bool:
    """Whether nothing is wrong with any of some lines, looked at together."""
    there = [line for line in lines if line is not None]
    wanted = referred(b"\n".join(there))
    if codec.cache.contents.has(wanted) != wanted:
        return False
    try:
        codec.decoder.check(there)
    except (CanneryError, UnicodeError):
        return False
    return True


def _problems(codec: Codec, line: bytes) -> list[str]:
    wanted = referred(line)
    missing = wanted - codec.cache.contents.has(wanted)
    if missing:
        return [f"content sha256:{digest.hex()} is missing" for digest in missing]
    try:
        codec.decoder.check([line])
    except (CanneryError, UnicodeError) as error:
        return [str(error)]
    return []


def _check_parent(
    store: Store, parent: str, position: int, where: str, damages: list[Damage]
) -> None:
    above = store.any_metadata(parent)
    end = store.backend.end(parent, above.position)
    if position > end:
        problem = f"forks {parent!r} at {position}, which ends at {end}"
        damages.append(Damage(f"{where}/conversation.json", problem))
