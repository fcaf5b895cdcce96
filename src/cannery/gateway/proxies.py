"""The proxy of an upstream, as the environment names it: ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``.

Each is read in upper or lower case, upper case first. A proxy that is named but cannot be used is an error: requests
would otherwise take another way than the one that was asked for. Errors omit the value, which may hold a password.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from cannery.errors import ConfigurationError

_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
# Desktops write it in ALL_PROXY for version 5.
_ALIASES = {"socks": "socks5"}
_PORTS = {"http": 80, "https": 443}
_WITH_PORT = re.compile(r"(?P<name>\[.+\]|[^:]+):(?P<port>\d+)")


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy for requests to a URL, or None for a direct connection."""
    target = urlsplit(url)
    for variable in (f"{target.scheme}_proxy", "all_proxy"):
        name, value = _read(environment, variable)
        if value:
            if _is_exempt(target, _read(environment, "no_proxy")[1]):
                return None
            return _checked(name, value)
    return None


def _read(environment: Mapping[str, str], variable: str) -> tuple[str, str]:
    """A variable in either case, with its name."""
    for name in (variable.upper(), variable):
        value = environment.get(name, "").strip()
        if value:
            return name, value
    return variable.upper(), ""


def _checked(name: str, value: str) -> str:
    """The URL of a proxy, with its scheme; one without a scheme speaks HTTP."""
    scheme, mark, rest = value.partition("://")
    if not mark:
        scheme, rest = "http", value
    scheme = scheme.lower()
    scheme = _ALIASES.get(scheme, scheme)
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        is_usable = bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", value)
    except ValueError:
        is_usable = False
    if scheme not in _SCHEMES or not is_usable:
        problem = "is not the URL of a proxy, like http://proxy.example:3128; schemes: "
        raise ConfigurationError(name, problem + ", ".join(_SCHEMES))
    return f"{scheme}://{rest}"


def _is_exempt(target: SplitResult, listed: str) -> bool:
    """Whether ``NO_PROXY`` lists a host: as ``*``, a name or the end of one, an address, a network, or with a port."""
    host = (target.hostname or "").rstrip(".")
    port = target.port or _PORTS.get(target.scheme)
    for entry in re.split(r"[,\s]+", listed.lower()):
        found = _WITH_PORT.fullmatch(entry)
        name = found["name"] if found else entry
        if found and int(found["port"]) != port:
            continue
        if name == "*" or _is_within(host, name.strip("[]")):
            return True
        name = name.removeprefix("*").strip(".")
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return False


def _is_within(host: str, network: str) -> bool:
    """Whether a host is an address of a network; one address is a network too."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
