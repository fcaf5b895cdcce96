"""Upstreams: the rows of the configuration as ready values, and the routing of model names to them.

A row's URL is what a provider's SDK accepts as its base URL; ``join_url`` appends a dialect's route. A new endpoint is
a row, a new spelling is a dialect, a quirk is a field.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from cannery.dialects import all_dialects, find_dialect
from cannery.errors import NotFoundError
from cannery.gateway.envelopes import close_body, with_fields
from cannery.gateway.routing import vendor_of
from cannery.gateway.settings import Row, Settings
from cannery.gateway.signing import SIGV4, Signer
from cannery.wire.contract import Dialect, Route, Rules, Variant
from cannery.wire.service import Host

ECHO = "echo"
_VERSION = re.compile(r"^/v\d+(?:(?:alpha|beta)\d*)?(?=/)")
_ENDS_IN_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")
_MOST_KEPT = 10_000


def _default_rows() -> tuple[Row, ...]:
    """The rows that environment variables alone provide: one for each host, with all its dialects."""
    hosts: dict[Host, list[Dialect]] = {}
    for dialect in all_dialects():
        if dialect.service.host is not None:
            hosts.setdefault(dialect.service.host, []).append(dialect)
    return tuple(
        Row(
            vendor_of(dialects[0]),
            host.url,
            tuple(dialect.name for dialect in dialects),
            host.key_variables,
            models=host.models,
        )
        for host, dialects in hosts.items()
    )


DEFAULT_ROWS = _default_rows()


class UnknownModelError(NotFoundError):
    """No upstream has this model name."""

    def __init__(self, model: str | None, known: Iterable[str]) -> None:
        shown = "no model was named" if model is None else f"no upstream has the model {model!r}"
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"{shown}; upstreams: {listed}")
        self.model = model


class Credential(NamedTuple):
    """A caller's credential for its provider; ``scheme`` is the place it came in, None for a query."""

    value: str
    scheme: str | None


class Upstream(Struct, frozen=True):
    """One upstream, ready to use."""

    row: Row
    key: str | None
    dialects: tuple[Dialect, ...]
    # The same row with its other keys, and the position of this one.
    others: tuple[Upstream, ...] = ()
    number: int = 0
    signer: Signer | None = None
    # For each dialect the service in the row, and the dialect in its form.
    served: Mapping[str, tuple[Variant, Dialect]] = {}
    _urls: dict[tuple[str, str, str | None], str] = msgspec.field(default_factory=dict)
    _headers: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.row.name

    @property
    def is_echo(self) -> bool:
        """Whether it is the built-in echo."""
        return self.row.name == ECHO

    def dialect_for(self, caller: Dialect) -> Dialect:
        """The dialect for its requests: the caller's own if it supports it."""
        return caller if caller in self.dialects else self.dialects[0]

    def rules(self, dialect: Dialect, model: str | None) -> Rules | None:
        """The rules of the provider with this endpoint's quirks, or None if it has none."""
        if not self.row.quirks:
            return None
        return msgspec.structs.replace(dialect.rules_of(model), **self.row.quirks)

    def endpoint(self, dialect: Dialect) -> Dialect:
        """A dialect with the routes, headers and errors of the row's service."""
        found = self.served.get(dialect.name)
        return dialect if found is None else found[1]

    def variant(self, dialect: Dialect) -> Variant | None:
        """The variant in which it uses a dialect, if any."""
        found = self.served.get(dialect.name)
        return None if found is None else found[0]

    def url(self, dialect: Dialect, kind: str, model: str | None) -> str:
        """The URL of an endpoint; NotFoundError if the dialect has none of that kind."""
        key = (dialect.name, kind, model)
        found = self._urls.get(key)
        if found is None:
            found = self._find_url(dialect, kind, model)
            if len(self._urls) < _MOST_KEPT:
                self._urls[key] = found
        return found

    def _find_url(self, dialect: Dialect, kind: str, model: str | None) -> str:
        route = self._route(dialect, kind)
        path = route.path.replace("{model}", quote(model or "", safe=route.safe))
        if route.kind in self.row.paths:
            return self.row.url.rstrip("/") + path
        url = join_url(self.row.url, path, dialect)
        variant = self.variant(dialect)
        return url if variant is None or not variant.query else f"{url}?{variant.query}"

    def _route(self, dialect: Dialect, kind: str) -> Route:
        """The endpoint of a kind: the row's own, or the service's."""
        for wanted in (kind, "generate") if kind == "stream" else (kind,):
            own = self.row.paths.get(wanted)
            if own is not None:
                return Route("POST", own, wanted, safe=":@")
            for route in self.endpoint(dialect).routes:
                if route.kind == wanted:
                    return route
        raise NotFoundError(f"{self.name}: {dialect.name} has no endpoint to {kind}")

    def body(self, dialect: Dialect, kind: str, written: bytes, headers: dict[str, str]) -> bytes:
        """A body in this endpoint's form: some fields removed, and others added, which may come from headers."""
        variant = self.variant(dialect)
        if variant is not None:
            written = close_body(variant, self._route(dialect, kind).path, written, headers)
        return with_fields(written, {*self.row.without_fields}, self.row.fields)

    def headers(
        self, dialect: Dialect, credential: Credential | None = None, *, is_same: bool = True
    ) -> dict[str, str]:
        """The headers of a request, authentication included.

        The caller's own credential keeps its place if the caller uses the same dialect: a token is not an API key.
        """
        if credential is not None and self.row.forward_key:
            scheme = credential.scheme if is_same else None
            return self._make_headers(dialect, credential.value, scheme)
        found = self._headers.get(dialect.name)
        if found is None:
            found = self._headers[dialect.name] = self._make_headers(dialect, self.key)
        return {**found}

    def _make_headers(
        self, dialect: Dialect, key: str | None, scheme: str | None = None
    ) -> dict[str, str]:
        usual = self.endpoint(dialect).service.headers
        headers = {"content-type": "application/json", **self.row.headers}
        if key:
            scheme = self.row.auth or scheme or usual.key
            if scheme == "bearer":
                headers["authorization"] = f"Bearer {key}"
            elif scheme not in ("none", SIGV4):
                headers[scheme] = key
        for name, value in usual.always.items():
            headers.setdefault(name, value)
        return headers


class Choice(Struct, frozen=True):
    """The upstream for a call, and its name for the model."""

    upstream: Upstream
    model: str | None

    @property
    def place(self) -> tuple[str, int]:
        """The position of the row, and of its key."""
        return self.upstream.name, self.upstream.number


class Upstreams:
    """All upstreams, in the order in which their patterns are tried."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        rows = list(settings.upstreams)
        names = {row.name for row in rows}
        rows += [
            row
            for row in DEFAULT_ROWS
            if row.name not in names and any(map(environment.get, row.key_variables))
        ]
        self.all = [_upstream(row, environment) for row in rows]
        if settings.echo:
            patterns = (ECHO, "echo-*") if rows else (ECHO, "*")
            echo = Row(ECHO, "http://127.0.0.1", models=patterns)
            self.all.append(Upstream(echo, None, (find_dialect(echo.dialects[0]),)))
        self._by_name = {upstream.name: upstream for upstream in self.all}
        self._chosen: dict[str | None, tuple[Choice, ...]] = {}

    def choose(self, model: str | None) -> Choice:
        """The first upstream for a model name."""
        return self.candidates(model)[0]

    def candidates(self, model: str | None) -> tuple[Choice, ...]:
        """The upstreams for a model name: by alias, by ``upstream/model``, then by pattern.

        Several rows with one alias, and several keys of a row, are tried in turn.
        """
        found = self._chosen.get(model)
        if found is None:
            choices = self._choose(model)
            found = tuple(
                Choice(upstream, choice.model)
                for choice in choices
                for upstream in (choice.upstream, *choice.upstream.others)
            )
            if len(self._chosen) < _MOST_KEPT:
                self._chosen[model] = found
        return found

    def _choose(self, model: str | None) -> list[Choice]:
        name = "" if model is None else model.removeprefix("models/")
        if not {".", ".."}.isdisjoint(name.split("/")):
            # Some dialects have the model in the path, where this would select another endpoint.
            raise UnknownModelError(model, self._by_name)
        named = [upstream for upstream in self.all if name in upstream.row.aliases]
        if named:
            return [Choice(upstream, upstream.row.aliases[name]) for upstream in named]
        prefix, mark, rest = name.partition("/")
        if mark and rest and prefix in self._by_name:
            return [Choice(self._by_name[prefix], rest)]
        for upstream in self.all:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in upstream.row.models):
                return [Choice(upstream, model)]
        raise UnknownModelError(model, self._by_name)

    def find(self, name: str) -> Upstream | None:
        """The upstream of a name."""
        return self._by_name.get(name)

    def model_names(self) -> list[tuple[str, str]]:
        """Each model known by name, with its upstream."""
        found: dict[str, str] = {}
        for upstream in self.all:
            for name in (*upstream.row.aliases, *upstream.row.models):
                if not is_pattern(name):
                    found.setdefault(name, upstream.name)
        return list(found.items())


def is_pattern(name: str) -> bool:
    """Whether a name in the configuration is a pattern."""
    return not set("*?[").isdisjoint(name)


def _upstream(row: Row, environment: Mapping[str, str]) -> Upstream:
    dialects = tuple(find_dialect(name) for name in row.dialects)
    keys = [*dict.fromkeys(key for key in map(environment.get, row.key_variables) if key)]
    served = {
        dialect.name: (variant, dialect.at(variant))
        for dialect in dialects
        for variant in dialect.variants
        if variant.name == row.variant
    }
    others = tuple(
        Upstream(row, key, dialects, number=number, served=served)
        for number, key in enumerate(keys[1:], 1)
    )
    signer = Signer.of(row) if row.auth == SIGV4 else None
    return Upstream(row, keys[0] if keys else None, dialects, others, signer=signer, served=served)


def join_url(base: str, path: str, dialect: Dialect) -> str:
    """Append a route to a base URL, whether or not the base already includes the version.

    Servers of some dialects live below any path (``/api/v1``, ``/v1beta/openai``), so for them a base with a path is
    taken to include the version.
    """
    base = base.rstrip("/")
    root = urlsplit(base).path
    has_version = _ENDS_IN_VERSION.search(root) is not None
    if has_version or (root and dialect.service.is_anywhere):
        path = _VERSION.sub("", path)
    return base + path
