"""Verification: re-derives every hash, decodes every line, follows every reference, and finds missing data.

The backend's manifest lists what must exist; the catalogue is compared with the stored data. Others may write
meanwhile: a difference is checked again before it is reported.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from cannery.backends import (
    Damage,
    Expected,
    Inspection,
    Metadata,
    Progress,
    is_identifier,
    referred,
)
from cannery.errors import CanneryError, DamageError, KeyUnavailableError, StoreUnavailableError
from cannery.storage.exchanges import conversation_of, pages
from cannery.storage.metadata import decode_metadata

if TYPE_CHECKING:
    from cannery.storage.store import Codec, Store


T = TypeVar("T")

_LOOKS = 5
_PAGE = 1000


class Report(Struct, frozen=True):
    """The counts of checked objects, and everything that is wrong.

    Of the records of ``exchanges``, ``exchanges_of_none`` name conversations that do not exist, such as deleted and
    freed ones: spent money stays counted.
    """

    conversations: int
    messages: int
    contents: int
    content_bytes: int
    exchanges: int
    exchanges_of_none: int
    damages: tuple[Damage, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages


class _Looked(Struct):
    """The findings for a readable conversation."""

    count: int
    title: str
    is_listed: bool


class _Verification:
    """One verification of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._manifest: dict[str, Expected] = {}
        self._missing: dict[str, Damage] = {}
        self._looked: dict[str, _Looked] = {}
        self.damages: list[Damage] = []
        self.messages = 0
        self.exchanges = 0
        self.exchanges_of_none = 0

    def tell(self, work: Callable[[], T], nothing: T) -> T:
        """Yield the findings of a step; damage that ends it is reported, and the other steps run anyway."""
        try:
            return work()
        except DamageError as error:
            self.damages.append(Damage(error.where, error.problem))
            return nothing

    def begin(self) -> None:
        """Read the manifest of what must exist; data may be added meanwhile, never removed."""
        self._manifest = dict(self._store.backend.manifest())

    def look(self, identifier: str) -> None:
        """Verify one conversation."""
        expected = self._manifest.pop(identifier, None)
        where = f"conversations/{identifier}"
        try:
            raw = self._store.raw_metadata(identifier)
            if raw is None:
                self._without_metadata(identifier, expected)
                return
            metadata = decode_metadata(raw, identifier)
            if not self._store.sees(metadata):
                return
            if metadata.parent is not None:
                _check_parent(self._store, metadata.parent, metadata.position, where, self.damages)
        except CanneryError as error:
            self.damages.append(Damage(f"{where}/conversation.json", str(error)))
            return
        base = metadata.position
        try:
            reading = self._store.backend.read(identifier, base, base)
        except KeyUnavailableError as error:
            self.damages.append(Damage(f"{where}/messages.jsonl", str(error)))
            return
        self.damages += reading.damages
        self._check_lines(f"{where}/messages.jsonl", metadata, reading.lines)
        if expected is not None:
            self._check_end(identifier, expected, base, reading.lines)
        self.messages += len(reading.lines)
        is_listed = metadata.deleted is None
        self._looked[identifier] = _Looked(base + len(reading.lines), metadata.title, is_listed)

    def _without_metadata(self, identifier: str, expected: Expected | None) -> None:
        # A folder without metadata remains when creating a conversation failed.
        where = f"conversations/{identifier}/conversation.json"
        count = self._store.backend.end(identifier, 0)
        if count or expected is not None:
            self.damages.append(Damage(where, "the metadata is missing"))
        self.messages += count

    def _check_lines(self, log: str, metadata: Metadata, lines: Sequence[bytes | None]) -> None:
        codec = self._store.codec(metadata.scope)
        if _is_sound(codec, lines):
            return
        for index, line in enumerate(lines):
            if line is not None:
                place = index + 1, metadata.position + index
                self.damages += [Damage(log, problem, *place) for problem in _problems(codec, line)]

    def _check_end(
        self, identifier: str, expected: Expected, base: int, lines: Sequence[bytes | None]
    ) -> None:
        """Compare a log with its end in the manifest."""
        log = f"conversations/{identifier}/messages.jsonl"
        found = base + len(lines)
        if found < expected.end:
            problem = f"{expected.end - found} line(s) missing at the end"
            self._missing[identifier] = Damage(log, problem, position=found)
        elif expected.seal is not None and expected.end > base:
            line = lines[expected.end - base - 1]
            if line is not None and line[-10:-2] != expected.seal.encode():
                problem = "not the line that was written"
                position = expected.end - 1
                self._missing[identifier] = Damage(log, problem, position - base + 1, position)

    def check_missing(self) -> None:
        """Report objects in the manifest that the store lacks, unless they are no longer listed."""
        for identifier in self._manifest:
            where = f"conversations/{identifier}"
            self._missing[identifier] = Damage(where, "the conversation is missing")
        if self._missing:
            now = self._store.backend.manifest()
            self.damages += [damage for name, damage in self._missing.items() if name in now]

    def check_catalogue(self) -> None:
        """Compare the catalogue with the stored data; differences by concurrent changes are checked again."""
        wrong = self._differing(self._listed())
        for _ in range(_LOOKS):
            if not wrong:
                return
            for identifier in wrong:
                self._look_again(identifier)
            wrong &= self._differing(self._listed())
        for identifier in sorted(wrong):
            problem = "the index says something else of it: `cannery reindex` builds it again"
            self.damages.append(Damage(f"conversations/{identifier}", problem, is_lost=False))

    def check_exchanges(self, identifiers: Sequence[str]) -> None:
        """Read the log of usage records; a concurrent record may belong to a new conversation."""
        try:
            self._check_exchanges(set(identifiers))
        except StoreUnavailableError as error:
            self.damages.append(Damage("exchanges", str(error)))

    def _check_exchanges(self, there: set[str]) -> None:
        gone: Counter[str] = Counter()
        for page in pages(self._store):
            for raw in page.records:
                self.exchanges += 1
                name = None if raw is None else conversation_of(raw)
                if name is None or (name and not is_identifier(name)):
                    problem = "not the record that was written"
                    self.damages.append(Damage("exchanges", problem, self.exchanges))
                elif name and name not in there:
                    gone[name] += 1
        torn = self._store.backend.exchanges.torn()
        if torn is not None:
            self.damages.append(Damage("exchanges", torn, self.exchanges + 1))
        found = self._store.backend.metadata_many(gone)
        self.exchanges_of_none = sum(gone.values()) - sum(gone[name] for name in found)

    def _listed(self) -> dict[str, _Looked]:
        found = {}
        after = None
        while page := self._store.list(kinds=None, limit=_PAGE, after=after):
            for one in page:
                found[one.identifier] = _Looked(one.count, one.title, is_listed=True)
            after = page[-1].cursor
        return found

    def _differing(self, listed: Mapping[str, _Looked]) -> set[str]:
        there = {name: one for name, one in self._looked.items() if one.is_listed}
        return {
            name for name in there.keys() | listed.keys() if there.get(name) != listed.get(name)
        }

    def _look_again(self, identifier: str) -> None:
        self._looked.pop(identifier, None)
        with contextlib.suppress(CanneryError):
            raw = self._store.raw_metadata(identifier)
            if raw is not None:
                metadata = decode_metadata(raw, identifier)
                count = self._store.backend.end(identifier, metadata.position)
                is_listed = metadata.deleted is None and self._store.sees(metadata)
                self._looked[identifier] = _Looked(count, metadata.title, is_listed)


def verify(store: Store, progress: Progress | None = None) -> Report:
    """Check everything in a store, and find missing data."""
    verification = _Verification(store)
    tell = verification.tell
    nothing = Inspection(0, 0, ())
    inspection = tell(lambda: store.backend.inspect(progress), nothing)
    tell(verification.begin, None)
    identifiers = tell(lambda: [*store.backend.identifiers()], list[str]())
    for done, identifier in enumerate(identifiers, 1):
        tell(functools.partial(verification.look, identifier), None)
        if progress:
            progress(done, len(identifiers))
    tell(verification.check_missing, None)
    tell(verification.check_catalogue, None)
    tell(lambda: verification.check_exchanges(identifiers), None)
    return Report(
        len(identifiers),
        verification.messages,
        inspection.contents,
        inspection.content_bytes,
        verification.exchanges,
        verification.exchanges_of_none,
        (*inspection.damages, *verification.damages),
    )


def _is_sound(codec: Codec, lines: Sequence[bytes | None]) -> bool:
    """Whether all of some lines are sound, checked together."""
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
