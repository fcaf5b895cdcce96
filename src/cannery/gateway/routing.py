"""Resolves a path to a dialect and an endpoint, by the dialects' own routes.

A path is split from the left: an optional prefix (``/openai``, ``/anthropic``, ``/gemini``: the vendor in a dialect's
name), an optional version (``/v1``, ``/v1beta``: clients of two generations use different ones), and the endpoint. Base
URLs are configured with a slash at the end, or with a version that the client adds once more: slashes at either end and
repeated versions are ignored. If several dialects have the same endpoint, headers decide. ``{model}`` is matched from
the right, because a model's name may contain slashes and arrives decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from cannery.dialects import all_dialects, dialect_names, find_dialect
from cannery.wire.contract import Dialect, Route, Variant
from cannery.wire.service import Service

Headers = Callable[[str], str | None]
# Most clients use it, and their headers do not identify it.
DEFAULT_DIALECT = "openai_chat"
# Served from the store, in the dialect whose requests name a conversation.
CONVERSATIONS = "/conversations"
RESPONSES = next(each.name for each in all_dialects() if each.service.continuing.conversation)
_CONVERSATION_METHODS = ("DELETE", "GET", "POST")
_PASSED_METHODS = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})
_VERSION = re.compile(r"(/v\d+(?:(?:alpha|beta)\d*)?)+(?=/)")
_MOST_KNOWN = 1024
_MODEL = "model"


class Match(Struct, frozen=True):
    """The endpoint that a path leads to."""

    dialect: Dialect
    kind: str
    model: str | None = None
    variant: Variant | None = None
    # The dialect with the headers and errors of the service that the caller expects.
    served: Dialect | None = None

    @property
    def endpoint(self) -> Dialect:
        """The dialect in the form of the endpoint."""
        return self.served or self.dialect


class NoMatch(Struct, frozen=True):
    """An unknown path: the dialect of the error, and the methods that the path has."""

    dialect: Dialect
    allowed: tuple[str, ...] = ()
    variant: Variant | None = None

    @property
    def endpoint(self) -> Dialect:
        """The dialect in the form of the endpoint."""
        return self.dialect


class _Pattern(Struct, frozen=True):
    """Paths with a placeholder for a model, or with steps of any name."""

    method: str
    path: re.Pattern[str]
    match: Match
    # The text after the last placeholder; a pattern that ends with one leaves room for other endpoints.
    ending: str
    vendors: tuple[str | None, ...]

    def find(self, path: str) -> Match | None:
        """The match of a path, if it is one of these."""
        found = self.path.fullmatch(path)
        if found is None:
            return None
        return replace(self.match, model=found.groupdict().get("model"))


class Router:
    """The endpoints of all dialects."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        found = map(find_dialect, names or dialect_names())
        self.dialects = [dialect for dialect in found if dialect.routes]
        self.vendors = {vendor_of(dialect) for dialect in self.dialects}
        self.vendors |= {variant.name for each in self.dialects for variant in each.variants}
        told = [(vendor_of(dialect), dialect.service.headers) for dialect in self.dialects]
        self._told_by = [(name, vendor) for vendor, headers in told for name in headers.tell]
        self._agents = [(start, vendor) for vendor, headers in told for start in headers.agents]
        self._exact: dict[tuple[str, str], list[Match]] = {}
        self._patterns: list[_Pattern] = []
        self._versions: dict[str, set[str]] = {dialect.name: set() for dialect in self.dialects}
        for dialect in self.dialects:
            for route in dialect.routes:
                self._add(Match(dialect, route.kind), route, route.path)
            for variant in dialect.variants:
                served = dialect.at(variant)
                for route in variant.routes:
                    match = Match(dialect, route.kind, variant=variant, served=served)
                    for base in dict.fromkeys((variant.base, "")):
                        self._add(match, route, base + route.path)
        # Those without a model first, then longer endings: ``{model}`` alone would match everything.
        self._patterns.sort(key=lambda each: (_MODEL in each.path.groupindex, -len(each.ending)))
        self._known: dict[tuple[str, str], Match] = {}

    def _add(self, match: Match, route: Route, whole: str) -> None:
        _, version, path = self._split(whole)
        self._versions[match.dialect.name].add(version)
        if "{" not in path:
            found = self._exact.setdefault((route.method, path), [])
            # If a service has the dialect's own endpoint, it is that.
            if all(each.dialect is not match.dialect for each in found):
                found.append(match)
            return
        ending = path.rpartition("}")[2]
        self._patterns.append(
            _Pattern(route.method, _compiled(path), match, ending, self._mounts(match))
        )

    def _mounts(self, match: Match) -> tuple[str | None, ...]:
        """The prefixes of an endpoint, None for none."""
        named = () if match.variant is None else (match.variant.name,)
        return (None, vendor_of(match.dialect), *named)

    def find(self, method: str, path: str, headers: Headers) -> Match | NoMatch:
        """Resolve a path."""
        known = self._known.get((method, path))
        if known is not None:
            return known
        if method == "HEAD":
            method = "GET"
        vendor, version, endpoint = self._split(path)
        found = self._exact.get((method, endpoint))
        if found is not None:
            mine = [match for match in found if vendor in self._mounts(match)]
            if len(mine) == 1 and len(self._known) < _MOST_KNOWN:
                self._known[method, path] = mine[0]
            if mine:
                return self._choose(mine, version, headers)
        if f"{endpoint}/".startswith(f"{CONVERSATIONS}/") and (
            vendor is None or vendor == vendor_of(find_dialect(RESPONSES))
        ):
            dialect = find_dialect(RESPONSES)
            if method in _CONVERSATION_METHODS:
                return Match(dialect, "conversations")
            return NoMatch(dialect, _CONVERSATION_METHODS)
        matches = list(self._by_pattern(method, endpoint, vendor))
        if matches:
            return self._choose(matches, version, headers)
        passed = self._passed(method, endpoint, vendor, version, headers)
        if passed is not None:
            return passed
        vendor = vendor or self._vendor_of_folder(endpoint)
        return NoMatch(self.guess(vendor, headers), self._allowed(endpoint, vendor))

    def _passed(
        self, method: str, endpoint: str, vendor: str | None, version: str, headers: Headers
    ) -> Match | None:
        """The match of a path that is not a conversation."""
        if method not in _PASSED_METHODS or (not version and vendor is None):
            return None
        if any(endpoint == path for _, path in self._exact):
            return None
        for dialect in self.dialects:
            kept = dialect.service.continuing.endpoint
            if kept and endpoint.startswith(f"{kept}/") and vendor in (None, vendor_of(dialect)):
                return Match(dialect, "response")
        vendor = vendor or self._sniff(headers) or self._vendor_of_folder(endpoint)
        vendor = vendor or self._vendor_of_version(version)
        services = [each.service for each in self.dialects if vendor_of(each) == vendor]
        if not any(_passes(service, endpoint) for service in services):
            return None
        return Match(self.guess(vendor, headers), "pass")

    def _split(self, path: str) -> tuple[str | None, str, str]:
        """The prefix, the version and the endpoint in a path."""
        vendor = None
        path = path.strip("/")
        first, _, rest = path.partition("/")
        if first in self.vendors:
            vendor, path = first, rest.lstrip("/")
        path = f"/{path}"
        version = _VERSION.match(path)
        if version is None:
            return vendor, "", path
        return vendor, version[1], path[version.end() :]

    def _by_pattern(self, method: str, endpoint: str, vendor: str | None) -> Iterable[Match]:
        for pattern in self._patterns:
            if pattern.method != method or vendor not in pattern.vendors:
                continue
            match = pattern.find(endpoint)
            if match is not None:
                yield match
                if pattern.ending:
                    return

    def _allowed(self, endpoint: str, vendor: str | None) -> tuple[str, ...]:
        methods = {method for method, path in self._exact if path == endpoint}
        methods.update(
            pattern.method
            for pattern in self._patterns
            if vendor in pattern.vendors and pattern.find(endpoint)
        )
        if "GET" in methods:
            methods.add("HEAD")
        return tuple(sorted(methods))

    def _choose(self, matches: list[Match], version: str, headers: Headers) -> Match:
        """Of several dialects that have an endpoint, the one whose client seems to be calling."""
        if len(matches) > 1:
            of_version = [
                match for match in matches if version in self._versions[match.dialect.name]
            ]
            matches = of_version or matches
        if len(matches) == 1:
            return matches[0]
        by_vendor = {vendor_of(match.dialect): match for match in reversed(matches)}
        # Headers of a vendor without such an endpoint are ignored: gateways add them to every request.
        sniffed = self._sniff(headers)
        return by_vendor.get(sniffed or "") or by_vendor.get(_default_vendor()) or matches[0]

    def guess(self, vendor: str | None, headers: Headers) -> Dialect:
        """The dialect for the error about an unknown path."""
        wanted = vendor or self._sniff(headers) or _default_vendor()
        for dialect in self.dialects:
            if vendor_of(dialect) == wanted:
                return dialect
        return find_dialect(DEFAULT_DIALECT)

    def _vendor_of_folder(self, endpoint: str) -> str | None:
        """The only vendor with endpoints in the folder of a path, if there is one."""
        folder = _folder(endpoint)
        vendors = {
            vendor_of(each)
            for each in self.dialects
            for route in each.routes
            if folder and _folder(self._split(route.path)[2]) == folder
        }
        return vendors.pop() if len(vendors) == 1 else None

    def _vendor_of_version(self, version: str) -> str:
        """The vendor whose paths begin with a version; the default one if it is among several, or none does."""
        vendors = [
            vendor_of(each) for each in self.dialects if version in self._versions[each.name]
        ]
        default = _default_vendor()
        return vendors[0] if vendors and default not in vendors else default

    def _sniff(self, headers: Headers) -> str | None:
        """The vendor whose client probably sent these headers."""
        for name, vendor in self._told_by:
            if headers(name) is not None:
                return vendor
        agent = (headers("user-agent") or "").lower()
        for start, vendor in self._agents:
            if agent.startswith(start):
                return vendor
        return None


def _compiled(path: str) -> re.Pattern[str]:
    """The pattern of a path: its model may contain slashes, any other name in braces is one step."""
    pieces = re.split(r"{(\w+)}", path)
    for index, name in enumerate(pieces):
        if index % 2:
            pieces[index] = "(?P<model>.+)" if name == _MODEL else "[^/]+"
        else:
            pieces[index] = re.escape(name)
    return re.compile("".join(pieces), re.DOTALL)


def _folder(path: str) -> str:
    """The first step of a path with several."""
    first, _, rest = path.strip("/").partition("/")
    return first if rest else ""


def vendor_of(dialect: Dialect) -> str:
    """The prefix under which a dialect is mounted."""
    return dialect.name.partition("_")[0]


def _default_vendor() -> str:
    return vendor_of(find_dialect(DEFAULT_DIALECT))


def _passes(service: Service, endpoint: str) -> bool:
    """Whether an endpoint of a service is not a conversation, and is forwarded unchanged."""
    if any(f"{endpoint}/".startswith(f"{start}/") for start in service.passed):
        return True
    model, _, verb = endpoint.rpartition(":")
    return verb in service.passed_verbs and model.startswith("/models/") and ":" not in model
