"""Connections to the server: one pool per store, our own errors, and lost connections distinguished from refusals.

Connections are made on demand and kept; there are no threads beside the caller's. A lost one is discarded together with
all idle ones, because a restarted server has forgotten them all.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cannery.backends._hashing import Hashing
from cannery.backends.postgresql.pipelines import Call, Connection, Rows, exchange
from cannery.errors import (
    CanneryError,
    ConfigurationError,
    DamageError,
    InputError,
    StorageError,
    StoreUnavailableError,
)

Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]
T = TypeVar("T")

_POOL = 10
_TIMEOUT = 10
_ATTEMPTS = 20
_IDLE = psycopg.pq.TransactionStatus.IDLE
_OURS = ("content", "pool")
_SIZE = re.compile("[1-9][0-9]{0,3}")
# PostgreSQL's text cannot hold NUL. Its replacement is a noncharacter, which is itself escaped.
_STAND_IN, _ESCAPE = "\U0010ffff", "\U0010fffe"
_HELD = {"\0": _STAND_IN, _STAND_IN: f"{_ESCAPE}b", _ESCAPE: f"{_ESCAPE}a"}
_MEANT = {held: text for text, held in _HELD.items()}
_ODD = re.compile(f"[\0{_ESCAPE}{_STAND_IN}]")
_ODD_HELD = re.compile(f"{_ESCAPE}[ab]|{_STAND_IN}")


# An acknowledged commit is durable, whatever the server's default. Every query here has an index, so a plan is made
# once, even while the tables are still small.
_SETTINGS = (
    "SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false),"
    " set_config('plan_cache_mode', 'force_generic_plan', false),"
    " set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)"
)


class Target(NamedTuple):
    """The parts of a URL: the server, the place of large content, the number of connections."""

    conninfo: str
    name: str
    content: str | None
    pool: int


def parse_url(url: str) -> Target:
    """Parse a store's URL; every part but ``content`` and ``pool`` is the server's."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        # The host may be a misplaced password.
        raise ConfigurationError("postgresql://…", str(error)) from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in pairs if name in _OURS}
    # A socket's folder has slashes, which the server's library takes unescaped.
    rest = [pair for pair in pairs if pair[0] not in _OURS]
    query = urlencode(rest, safe="/", quote_via=quote)
    # Without a host, urlunsplit() would omit the slashes.
    conninfo = f"postgresql://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
    name = _name(parts.netloc, parts.path)
    try:
        known = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(name, str(error).strip()) from None
    if not known.get("dbname"):
        raise ConfigurationError(name, "a store in PostgreSQL names its database: …/NAME")
    size = ours.get("pool", str(_POOL))
    if not _SIZE.fullmatch(size):
        raise ConfigurationError(name, f"pool={size[:20]}: how many connections, from 1 to 9999")
    return Target(conninfo, name, ours.get("content"), int(size))


def _name(host: str, path: str) -> str:
    """A URL without its password."""
    return f"postgresql://{host.rpartition('@')[2]}{path}"


class Pool:
    """A bounded number of connections; further callers wait."""

    def __init__(self, target: Target, hashing: Hashing) -> None:
        self.name = target.name
        self.hashing = hashing
        self._conninfo = target.conninfo
        self._places = threading.BoundedSemaphore(target.pool)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._is_open = True
        self.losses = 0
        """How often connections were lost; the server behind later ones may have been restored from a copy."""

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise StorageError("the store was opened before a fork; open it again in this process")
        if not self._is_open:
            raise StorageError("the store is closed")

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one piece of work; errors of the server become ours."""
        self._check()
        with self._places, translated(self.name):
            connection = self._idle_one() or self.connect()
            try:
                yield connection
            finally:
                self._take_back(connection)

    def _idle_one(self) -> Connection | None:
        """A connection that is not in use and that the server has not closed."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None and not connection.is_alive():
            self.forget_idle()
            connection = None
        return connection

    def _take_back(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            connection.take_back()
        if connection.closed:
            self.forget_idle()
        elif connection.info.transaction_status != _IDLE or not self._is_open:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)

    def connect(self) -> Connection:
        """A connection outside the pool, for work that takes long."""
        self._check()
        with translated(self.name):
            connection = Connection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=0,
                connect_timeout=_TIMEOUT,
                client_encoding="utf-8",
            )
        try:
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection

    def forget_idle(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
            self.losses += 1
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all; a second call has no effect."""
        if os.getpid() != self._process:
            return
        self._is_open = False
        self.forget_idle()

    def ask(self, work: Callable[[Connection], T]) -> T:
        """The result of a read-only function; it is repeated if the connection was lost."""
        try:
            with self.connection() as connection:
                return work(connection)
        except LostError:
            with self.connection() as connection:
                return work(connection)

    def again_if_raced(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction, again if another was faster."""
        for _ in range(_ATTEMPTS):
            with (
                contextlib.suppress(RacedError),
                self.connection() as connection,
                connection.transaction(),
            ):
                return work(connection)
        raise StoreUnavailableError(f"{self.name}: others change the same all the time")

    def exchange(self, calls: Sequence[Call]) -> list[Rows]:
        """The results of read-only statements, in one round trip."""
        return self.ask(lambda connection: exchange(connection, calls))

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of one query."""
        return self.ask(lambda connection: execute(connection, query, values).fetchall())


class RacedError(StoreUnavailableError):
    """Another transaction was faster; the work can be repeated."""


class LostError(StoreUnavailableError):
    """The connection was lost; the outcome of the current work is unknown."""


def execute(connection: Connection, query: str, values: Sequence[Any] = ()) -> Cursor:
    """Send one statement."""
    return connection.cursor(binary=True).execute(query, values)


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Errors of the server and its library as ours."""
    try:
        yield
    except CanneryError:
        raise
    except UnicodeEncodeError:
        raise InputError("not valid Unicode: a lone surrogate") from None
    except (
        psycopg.errors.UniqueViolation,
        psycopg.errors.DeadlockDetected,
        psycopg.errors.SerializationFailure,
    ) as error:
        raise RacedError(f"{name}: {_first_line(error)}") from error
    except psycopg.errors.DataCorrupted as error:
        raise DamageError(name, _first_line(error)) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreUnavailableError(f"{name}: {_first_line(error)}") from error
    except psycopg.errors.ProgramLimitExceeded as error:
        # For example a tag or model that no index can hold: a later attempt would fail too.
        raise InputError(f"too long for {name}: {_first_line(error)}") from error
    except psycopg.OperationalError as error:
        kind = LostError if error.sqlstate is None or error.sqlstate[:2] in {"57", "08"} else None
        raise (kind or StoreUnavailableError)(f"{name}: {_first_line(error)}") from error
    except psycopg.Error as error:
        raise StorageError(f"{name}: {_first_line(error)}") from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]


def to_text(text: str) -> str:
    """Text in a form that PostgreSQL can hold."""
    if text.isascii() and "\0" not in text:
        return text
    return _ODD.sub(lambda found: _HELD[found[0]], text)


def from_text(text: str) -> str:
    """The original text."""
    return text if text.isascii() else _ODD_HELD.sub(lambda found: _MEANT[found[0]], text)
