"""The configuration: a TOML file, validated before anything starts, every problem with its line.

Keys are never in the file: a row names the environment variable that holds one. An existing settings value is valid; an
invalid file is refused whole, so that a reload never leaves the gateway half configured.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from cannery.backends import parse_source
from cannery.dialects import all_dialects, dialect_names, find_dialect, is_dialect
from cannery.errors import ConfigurationError, InputError
from cannery.gateway.routing import DEFAULT_DIALECT
from cannery.gateway.toml_lines import Place, find_lines, line_of
from cannery.hosting import WAYS
from cannery.roles.mappings import RoleMappings
from cannery.storage.retention import KeepDays, check_days
from cannery.wire.contract import Rules
from cannery.wire.losses import POLICIES, check_repairs

_PATH = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
DURABILITIES = ("sync", "group", "os")
ACKNOWLEDGEMENTS = ("received", "durable")
_LEAST = {
    ("server", "drain_seconds"): 0,
    ("server", "ping_seconds"): 0,
    ("limits", "body_bytes"): 1,
    ("limits", "header_bytes"): 1024,
    ("limits", "reply_bytes"): 1,
    ("limits", "header_seconds"): 0.1,
    ("limits", "body_seconds"): 0.1,
    ("limits", "idle_seconds"): 0.1,
    ("limits", "concurrent_calls"): 1,
    ("limits", "bytes_under_way"): 1,
    ("limits", "wait_seconds"): 0.1,
    ("recording", "queue"): 1,
    ("recording", "queue_bytes"): 1,
}
_LEAST_TIMEOUTS = {"connect": 0.001, "read": 0.001, "total": 0}
# About 11 days. Timers of the system count milliseconds in 31 bits.
_MOST_SECONDS = 1_000_000
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](:\d+)?|[^\s/@\[\]]+")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/]+/?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers of the connection with the caller, or with gateway keys.
_NEVER_FORWARDED = frozenset(
    [
        "accept-encoding",
        "api-key",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
        "x-goog-api-key",
    ]
)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


class Server(Struct, forbid_unknown_fields=True, frozen=True):
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    port: int = 8484
    development: bool = False
    log_level: str = "info"
    drain_seconds: float = 30.0
    ping_seconds: float = 15.0
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class Limits(Struct, forbid_unknown_fields=True, frozen=True):
    """Limits of requests, in size and time."""

    body_bytes: int = 64 << 20
    header_bytes: int = 64 << 10
    reply_bytes: int = 256 << 20
    header_seconds: float = 15.0
    body_seconds: float = 60.0
    # Longer than most clients keep a connection: a request that arrives while it is closed would be lost.
    idle_seconds: float = 120.0
    concurrent_calls: int = 2048
    # Of large requests under way and of exchanges that wait for the store; what does not fit waits to be read.
    bytes_under_way: int = 48 << 20
    wait_seconds: float = 120.0


class NamedKey(Struct, forbid_unknown_fields=True, frozen=True):
    """The settings for keys of one name: the environment variable that holds one, and their permissions."""

    variable: str | None = None
    operator: bool = False
    requests_per_minute: int = 0
    daily_budget: float = 0.0
    monthly_budget: float = 0.0

    @property
    def has_budget(self) -> bool:
        """Whether their spending is limited."""
        return bool(self.daily_budget or self.monthly_budget)


class Keys(Struct, forbid_unknown_fields=True, frozen=True):
    """The gateway's own API keys: environment variables that hold them, and a file with one per line.

    ``named`` are the tables ``[keys.NAME]``.
    """

    variables: tuple[str, ...] = ()
    file: str | None = None
    named: dict[str, NamedKey] = field(default_factory=dict)

    @property
    def are_asked_for(self) -> bool:
        """Whether callers must send one."""
        return bool(self.variables or self.named or self.file is not None)


class Recording(Struct, forbid_unknown_fields=True, frozen=True):
    """Where exchanges are kept."""

    enabled: bool = True
    store: str | None = None
    queue: int = 10_000
    queue_bytes: int = 32 << 20
    durability: str = "group"
    acknowledge: str = "received"
    encryption_key: str | None = None


class Retention(Struct, forbid_unknown_fields=True, frozen=True):
    """How many days unchanged conversations are kept; without a number, or with 0, forever."""

    keep_days: float | None = None
    scopes: dict[str, float] = field(default_factory=dict)

    @property
    def days(self) -> KeepDays:
        """The times in the store's form."""
        return KeepDays(self.keep_days, self.scopes)


class Roles(Struct, forbid_unknown_fields=True, frozen=True):
    """Extra role names, for all clients and for single ones."""

    mappings: dict[str, str] = field(default_factory=dict)
    clients: dict[str, dict[str, str]] = field(default_factory=dict)


class Losses(Struct, forbid_unknown_fields=True, frozen=True):
    """The policy for content that the upstream's dialect cannot express."""

    policy: str = "warn"
    # The policy for hosted tool calls that the other dialect cannot express: drop, or "text".
    hosted: str = "native"


class Timeouts(Struct, forbid_unknown_fields=True, frozen=True):
    """Time limits of an upstream, in seconds: to connect, between two reads, and in all (0: no limit)."""

    connect: float = 10.0
    read: float = 600.0
    total: float = 0.0


class Row(Struct, forbid_unknown_fields=True, frozen=True):
    """One upstream as the file describes it."""

    name: str
    url: str
    dialect: str | tuple[str, ...] = DEFAULT_DIALECT
    key_variable: str | tuple[str, ...] | None = None
    auth: str | None = None
    models: tuple[str, ...] = ("*",)
    aliases: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    quirks: dict[str, Any] = field(default_factory=dict)
    without_repairs: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    retries: int = 0
    forward_key: bool = False
    forward_headers: tuple[str, ...] = ()
    ca: str | None = None
    certificate: str | None = None
    certificate_key: str | None = None
    http2: bool = True
    connections: int = 0
    region: str | None = None
    paths: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    without_fields: tuple[str, ...] = ()
    variant: str | None = None

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that hold its keys."""
        named = self.key_variable
        return (named,) if isinstance(named, str) else named or ()

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects of the upstream, the preferred one first."""
        return (self.dialect,) if isinstance(self.dialect, str) else self.dialect


class Settings(Struct, forbid_unknown_fields=True, frozen=True):
    """All settings."""

    server: Server = Server()
    limits: Limits = Limits()
    keys: Keys = Keys()
    recording: Recording = Recording()
    retention: Retention = Retention()
    roles: Roles = Roles()
    losses: Losses = Losses()
    echo: bool = True
    upstreams: tuple[Row, ...] = ()

    @property
    def role_mappings(self) -> RoleMappings | None:
        """The role mappings, or None if there are none."""
        if not self.roles.mappings and not self.roles.clients:
            return None
        return RoleMappings(self.roles.mappings, self.roles.clients)


def load_settings(path: str | os.PathLike[str] | None = None, **changes: Any) -> Settings:
    """The settings of a file (none: the defaults), with single settings of ``[server]`` and ``[recording]`` changed."""
    settings = Settings() if path is None else read_settings(Path(path))
    parts = {"server": settings.server, "recording": settings.recording}
    for name, value in changes.items():
        if value is None:
            continue
        part = "server" if name in Server.__struct_fields__ else "recording"
        parts[part] = msgspec.structs.replace(parts[part], **{name: value})
    settings = msgspec.structs.replace(settings, **parts)
    for place, problem in _problems(settings):
        raise ConfigurationError(".".join(map(str, place)), problem)
    return settings


def read_settings(path: Path) -> Settings:
    """The settings of a file; ConfigurationError has the line of each problem."""
    try:
        # Some editors begin a file with a byte order mark, which TOML does not allow.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeError as error:
        raise ConfigurationError(str(path), f"not UTF-8: {error}") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, name: str = "configuration") -> Settings:
    """The settings in a text."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(name, f"not TOML: {error}") from None
    lines = find_lines(text)
    _gather_named_keys(values)
    try:
        settings = msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        problem, place = _locate(str(error), values)
        raise _refusal(name, lines, place, problem) from None
    for place, problem in _problems(settings):
        raise _refusal(name, lines, place, problem)
    return settings


def _gather_named_keys(values: dict[str, Any]) -> None:
    """Put the tables ``[keys.NAME]`` where ``Keys`` has them."""
    keys = values.get("keys")
    if isinstance(keys, dict):
        named = {name: keys.pop(name) for name in list(keys) if isinstance(keys[name], dict)}
        if named:
            keys["named"] = named


def _refusal(name: str, lines: dict[Place, int], place: Place, problem: str) -> ConfigurationError:
    line = line_of(lines, place)
    setting = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    where = name if line is None else f"{name}, line {line}"
    return ConfigurationError(f"{where}: {setting.lstrip('.') or 'file'}", problem)


def _locate(text: str, values: Any) -> tuple[str, Place]:
    """A msgspec error split into problem and place; an unknown key is a place of its own."""
    match = _PATH.match(text)
    problem, path = (match["problem"], match["path"] or "") if match else (text, "")
    place: list[str | int] = []
    for name, index in _STEP.findall(path):
        place.append(name or (int(index) if index.isdigit() else index))
    unknown = re.search(r"unknown field `(.+?)`", problem)
    if unknown:
        place.append(unknown[1])
        problem = f"there is no setting {unknown[1]!r} here"
    return problem, _with_positions(tuple(place), values)


def _with_positions(place: Place, values: Any) -> Place:
    """A place with the position of the row or the name of the key, which msgspec omits."""
    known = tuple(step for step in place if step != "...")
    if place[:2] == ("upstreams", "..."):
        for index, row in enumerate(values["upstreams"]):
            if not _is_valid(row, Row):
                return ("upstreams", index, *known[1:])
        return ("upstreams",)
    if place[:3] == ("keys", "named", "..."):
        for name, named in values["keys"]["named"].items():
            if not _is_valid(named, NamedKey):
                return ("keys", name, *known[2:])
    return known


def _is_valid(value: Any, kind: type[Struct]) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _recording_problems(recording: Recording) -> list[tuple[Place, str]]:
    problems: list[tuple[Place, str]] = []
    if recording.durability not in DURABILITIES:
        problems.append((("recording", "durability"), f"must be one of {', '.join(DURABILITIES)}"))
    if recording.encryption_key is not None:
        try:
            parse_source(recording.encryption_key)
        except ConfigurationError as error:
            problems.append((("recording", "encryption_key"), error.problem))
    if recording.acknowledge not in ACKNOWLEDGEMENTS:
        known = ", ".join(ACKNOWLEDGEMENTS)
        problems.append((("recording", "acknowledge"), f"must be one of {known}"))
    elif recording.acknowledge == "durable" and recording.durability == "os":
        problem = "cannot be durable while durability is os, which syncs nothing"
        problems.append((("recording", "acknowledge"), problem))
    return problems


def _out_of_range(name: str, value: float, least: float) -> str | None:
    """The problem of a number that is too small, no number, or a time that no timer counts."""
    if not value >= least:
        return f"must be at least {least:g}"
    if name.endswith("seconds") and value > _MOST_SECONDS:
        return f"must be at most {_MOST_SECONDS}"
    return None


def _server_problems(server: Server) -> list[tuple[Place, str]]:
    problems: list[tuple[Place, str]] = []
    if not 0 <= server.port <= 65535:
        problems.append((("server", "port"), "must lie between 0 and 65535"))
    if server.log_level not in ("debug", "info", "warning", "error"):
        problems.append((("server", "log_level"), "must be debug, info, warning or error"))
    for name in server.hosts:
        if not _HOST.fullmatch(name):
            problem = f"{name!r} is not a name as in the Host header, like gateway.example"
            problems.append((("server", "hosts"), problem))
    for name in server.origins:
        if name != "*" and not _ORIGIN.fullmatch(name):
            problem = f"{name!r} is not an origin, like https://app.example"
            problems.append((("server", "origins"), problem))
    return problems


def _problems(settings: Settings) -> list[tuple[Place, str]]:
    """Problems that the types alone cannot refuse."""
    problems: list[tuple[Place, str]] = [
        ((part, name), problem)
        for (part, name), least in _LEAST.items()
        if (problem := _out_of_range(name, getattr(getattr(settings, part), name), least))
    ]
    problems += _server_problems(settings.server)
    if settings.losses.policy not in POLICIES:
        problems.append((("losses", "policy"), f"must be one of {', '.join(POLICIES)}"))
    if settings.losses.hosted not in WAYS:
        problems.append((("losses", "hosted"), f"must be one of {', '.join(WAYS)}"))
    problems += _recording_problems(settings.recording)
    try:
        check_days(settings.retention.days)
    except InputError as error:
        problems.append((("retention",), str(error)))
    try:
        _ = settings.role_mappings
    except ConfigurationError as error:
        name = re.search(r'"(.+?)"', error.where)
        place = ("roles", "mappings", name[1] if name else "")
        problems.append((place, str(error)))
    for key_name, named in settings.keys.named.items():
        problems += [
            (("keys", key_name, field_name), "must be at least 0")
            for field_name in ("requests_per_minute", "daily_budget", "monthly_budget")
            if not getattr(named, field_name) >= 0
        ]
    seen: set[str] = {"echo"}
    for index, row in enumerate(settings.upstreams):
        problems += [(("upstreams", index, key), text) for key, text in _row_problems(row, seen)]
        seen.add(row.name)
    return problems


def _row_problems(row: Row, seen: set[str]) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", row.name):
        problems.append(("name", "must be a word of letters, digits, '.', '_' and '-'"))
    if row.name in seen:
        problems.append(("name", f"there are two upstreams named {row.name!r}"))
    problems += _sending_problems(row)
    for name in row.dialects:
        if not is_dialect(name):
            known = ", ".join(dialect_names())
            problems.append(("dialect", f"unknown dialect {name!r}; known: {known}"))
        elif not find_dialect(name).routes:
            problems.append(("dialect", f"{name!r} is a file format: nothing can be asked in it"))
    if not row.dialects:
        problems.append(("dialect", "names no dialect"))
    problems += _variant_problems(row)
    known_auth = (*key_headers(), "sigv4", "none")
    if row.auth is not None and row.auth not in known_auth:
        problems.append(("auth", f"must be one of {', '.join(known_auth)}"))
    if row.connections < 0:
        problems.append(("connections", "must be at least 0"))
    if not 0 <= row.retries <= 10:
        problems.append(("retries", "must lie between 0 and 10"))
    problems += _rule_problems(row)
    return problems


def _rule_problems(row: Row) -> Iterable[tuple[str, str]]:
    """Problems of the rules and repairs that a row changes."""
    try:
        check_repairs(row.without_repairs)
    except InputError as error:
        yield "without_repairs", str(error)
    try:
        msgspec.convert({**msgspec.to_builtins(Rules()), **row.quirks}, Rules)
    except msgspec.ValidationError as error:
        yield "quirks", str(error)
    known = Rules.__struct_fields__
    for key in row.quirks:
        if key not in known:
            yield "quirks", f"there is no quirk {key!r}; known: {', '.join(known)}"


@lru_cache(maxsize=1)
def key_headers() -> tuple[str, ...]:
    """The headers in which clients of any service send a key: as a bearer token, or in one of these headers."""
    spoken = [each.at(variant) for each in all_dialects() for variant in (None, *each.variants)]
    named = {endpoint.service.headers.key for endpoint in spoken}
    return ("bearer", *sorted(named - {"bearer"}))


def _variant_problems(row: Row) -> Iterable[tuple[str, str]]:
    """Problems of a row's service: it must exist for each of its dialects."""
    for name in row.dialects if row.variant is not None else ():
        found = find_dialect(name).variants if is_dialect(name) else ()
        known = [variant.name for variant in found]
        if row.variant not in known:
            listed = ", ".join(known) or "none"
            yield "variant", f"{name} has no variant {row.variant!r}; known: {listed}"


def _url_problems(row: Row) -> Iterable[tuple[str, str]]:
    """Problems of a row's URL, and of the settings for TLS, which need it."""
    if not _is_url(row.url):
        yield "url", "must begin with http:// or https:// and a host"
        return
    parts = urlsplit(row.url)
    if "@" in parts.netloc:
        yield "url", "holds a user name or a password; name the variable of a key in key_variable"
    if parts.query or parts.fragment:
        yield "url", "must end with its path: the path of each request is put behind it"
    for name in ("ca", "certificate", "certificate_key") if parts.scheme == "http" else ():
        if getattr(row, name) is not None:
            yield name, "is used with TLS only; the url must begin with https://"


def _sending_problems(row: Row) -> Iterable[tuple[str, str]]:
    """Problems of a row's request settings."""
    yield from _url_problems(row)
    for kind, path in row.paths.items():
        if kind not in ("generate", "stream", "count", "models") or not path.startswith("/"):
            yield (
                "paths",
                f"{kind!r} must be generate, stream, count or models, its path must begin with /",
            )
    for name, least in _LEAST_TIMEOUTS.items():
        problem = _out_of_range("seconds", getattr(row.timeouts, name), least)
        if problem is not None:
            yield "timeouts", f"{name} {problem}"
    for name in row.forward_headers:
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _NEVER_FORWARDED:
            yield "forward_headers", f"{name!r} cannot be forwarded"
    for name, value in row.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            yield "headers", f"{name!r} cannot be sent as a header"


def _is_url(url: str) -> bool:
    if not re.fullmatch(r"https?://[^/\s]+\S*", url):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def default_store() -> str:
    """The default location of conversations: the user's data directory."""
    chosen = os.environ.get("CANNERY_STORE")
    if chosen:
        return chosen
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(base) / "cannery")


def default_encryption_key() -> str | None:
    """The default location of the keys of an encrypted store."""
    return os.environ.get("CANNERY_ENCRYPTION_KEY") or None
