"""One PostgreSQL database, and a bucket for large content: a store that many gateways share.

``connections`` has the URL and the pool, ``tables`` the schema and its versions, ``commits`` makes changes,
``contents`` and ``objects`` store content, ``catalogue`` and ``rows`` are the index of conversations, ``words`` the
search index, ``exchanges`` the usage records, ``feed`` the change feed, ``collection`` frees unreachable data.

    postgresql://user@host/database?content=s3://bucket/prefix&pool=10

Data and catalogue change in one transaction at READ COMMITTED with locks that are taken in one order.
``docs/scale-out.md`` describes operation and the effect of each failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cannery.backends._contract import (
    GRACE,
    Backup,
    Change,
    Collection,
    ContentTable,
    Cursor,
    Damage,
    Describe,
    Durability,
    Expected,
    Growth,
    Inspection,
    Progress,
    Reading,
    Receipt,
    Span,
    check_identifier,
)
from cannery.backends._hashing import Hashing
from cannery.backends._seals import are_as_written, ordinal_of, unseal
from cannery.backends._single import SingleCommits
from cannery.errors import (
    CanneryError,
    ConfigurationError,
    DamageError,
    StorageError,
    StoreUnavailableError,
)

try:
    import psycopg  # noqa: F401 - asked for here, so that the error says what to install
except ImportError:
    raise ConfigurationError(
        "postgresql", "a store in PostgreSQL needs an extra: pip install 'cannery[postgres]'"
    ) from None

from cannery.backends.postgresql import feed
from cannery.backends.postgresql.catalogue import PostgresqlCatalogue
from cannery.backends.postgresql.collection import Collector, purge
from cannery.backends.postgresql.commits import Commits
from cannery.backends.postgresql.connections import Pool, parse_url
from cannery.backends.postgresql.contents import PostgresqlContents, inspect
from cannery.backends.postgresql.exchanges import PostgresqlExchanges
from cannery.backends.postgresql.objects import Objects
from cannery.backends.postgresql.pipelines import Call, Rows, Statement
from cannery.backends.postgresql.tables import DIGESTS, prepare

_PAGE = 1000
_LINES = Statement(
    "SELECT c.length, l.position, l.line FROM cannery.conversations c LEFT JOIN cannery.lines l"
    " ON l.number = c.number AND l.position >= $1 AND l.position < $2 WHERE c.id = $3 ORDER BY l.position",
    "int8 int8 text",
)
_METADATA = Statement("SELECT id, metadata FROM cannery.conversations WHERE id = ANY($1)", "text[]")
_LENGTH = Statement("SELECT length FROM cannery.conversations WHERE id = $1", "text")
_END = 1 << 62


class PostgresqlBackend(SingleCommits):
    """One database, any number of threads, processes and machines."""

    recovered: tuple[Damage, ...] = ()
    encryption = None

    def __init__(
        self, url: str, describe: Describe, hashing: Hashing, *, read_only: bool = False
    ) -> None:
        target = parse_url(url)
        self._objects = None if target.content is None else Objects(target.content)
        self._pool = Pool(target, hashing)
        prepared = prepare(self._pool, read_only=read_only)
        self._identity, self._why_read_only = prepared.identity, prepared.why_read_only
        self.is_read_only = self._why_read_only is not None
        self._commits = Commits(self._pool, self._objects, self._identity)
        self.catalogue = PostgresqlCatalogue(self._pool, self._objects, describe)
        self.exchanges = PostgresqlExchanges(self._pool, self._why_read_only)
        if prepared.version < DIGESTS and not self.is_read_only:
            self.catalogue.rebuild()

    # Writing

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes in order in one transaction, each of them all or nothing."""
        wanted = list(changes)
        if self.is_read_only:
            return [self._refusal() for _ in wanted]
        return self._commits.submit(wanted, durability)

    def _refusal(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._pool.name} can only be read: {self._why_read_only}")

    # Reading

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""
        return PostgresqlContents(self._pool, self._objects, scope)

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None."""
        return self.metadata_many([identifier]).get(identifier)

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of the existing ones."""
        wanted = [check_identifier(one) for one in identifiers]
        found = {}
        for start in range(0, len(wanted), _PAGE):
            (page,) = self._pool.exchange([(_METADATA, (wanted[start : start + _PAGE],))])
            for one, sealed in page:
                raw = unseal(sealed)
                if raw is None:
                    where = f"conversations/{one}/conversation.json"
                    raise DamageError(where, "the metadata is damaged")
                found[one] = raw
        return found

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation, in order."""
        query = "SELECT id FROM cannery.conversations WHERE id > %s ORDER BY id LIMIT %s"
        while page := [one for (one,) in self._pool.rows(query, (after, _PAGE))]:
            yield from page
            after = page[-1]

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        (found,) = self._pool.exchange([(_LENGTH, (check_identifier(identifier),))])
        return max(found[0][0], base) if found else base

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""
        return self.read_many([Span(identifier, base, start, stop)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans, in one round trip."""
        for span in spans:
            check_identifier(span.identifier)
        found = self._pool.exchange([_ask_lines(span) for span in spans])
        return [_reading(span, answer) for span, answer in zip(spans, found, strict=True)]

    def changes(self, cursor: Cursor | None, limit: int = _PAGE) -> Growth:
        """The conversations that changed after a cursor."""
        return self._pool.ask(
            lambda connection: feed.read(connection, self._identity, cursor, limit)
        )

    # Maintenance

    def manifest(self) -> Mapping[str, Expected]:
        """Nothing: a transaction keeps lines and their facts consistent."""
        return {}

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""
        return inspect(self._pool, self._objects, progress)

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations except the parts that forks need, and unreferenced content."""
        if self.is_read_only:
            raise self._refusal()
        return Collector(self._pool, self._objects, grace).run(dry_run=dry_run, progress=progress)

    def purge(self) -> None:
        """Have the server remove freed data."""
        purge(self._pool)

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Refused: the server's own tools copy a consistent snapshot."""
        del path, progress
        problem = "is backed up with pg_dump or pg_basebackup, and its bucket beside it"
        raise StorageError(f"{self._pool.name} {problem}: see docs/scale-out.md")

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _ask_lines(span: Span) -> Call:
    start = max(span.start, span.base)
    stop = _END if span.stop is None else max(span.stop, start)
    return _LINES, (start, stop, span.identifier)


def _reading(span: Span, found: Rows) -> Reading:
    start = max(span.start, span.base)
    if not found:
        return Reading(start, [])
    end = found[0][0]
    stop = end if span.stop is None else min(span.stop, end)
    expected = max(stop - start, 0)
    lines = [line for _, position, line in found if position is not None]
    if len(lines) == expected and are_as_written(lines, start):
        return Reading(start, lines)
    sound = {at: line for _, at, line in found if at is not None and ordinal_of(line) == at}
    where = f"conversations/{span.identifier}/messages.jsonl"
    damages = [
        Damage(where, "damaged line", at - span.base + 1, at)
        for at in range(start, start + expected)
        if at not in sound
    ]
    kept = [sound.get(at) for at in range(start, start + expected)]
    return Reading(start, kept, tuple(damages))


def open_backend(
    location: str, describe: Describe, hashing: Hashing, *, read_only: bool = False
) -> PostgresqlBackend:
    """Open the store in a database, or create one there."""
    return PostgresqlBackend(location, describe, hashing, read_only=read_only)
