"""The host names that the gateway answers to, as protection against DNS rebinding.

A page may point its own name to the address of this machine, and its requests are then same-origin: ``Origin`` does not
show it, but ``Host`` still has the page's name. The gateway answers to the names of this machine, to the address that
it listens on, and to the configured names; a gateway that listens on every address answers to each address, because a
page cannot have an address as its name.

https://en.wikipedia.org/wiki/DNS_rebinding
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from cannery.gateway.refusals import CallError, refuse
from cannery.gateway.settings import is_loopback

_MOST_KNOWN = 256
_PORT = re.compile(r"(:[0-9]*)?")


class Hosts:
    """Checks the ``Host`` of requests."""

    def __init__(self, bound: str, listed: Iterable[str]) -> None:
        bound = bound.strip("[]").lower()
        self._names = {_name(name) for name in listed} | {bound}
        self._is_open = "*" in self._names
        self._takes_addresses = _is_unspecified(bound)
        if not is_loopback(bound):
            self._names.add(socket.gethostname().lower())
        # Only HTTP/1.0 may omit the header.
        self.known: set[str | None] = {None}

    def refusal(self, host: str | None) -> CallError | None:
        """The error for a request to a name that is not the gateway's."""
        if host is None or self._is_welcome(_name(host)):
            if len(self.known) < _MOST_KNOWN:
                self.known.add(host)
            return None
        message = f"this gateway does not answer to the host {host[:200]!r}; add it to server.hosts"
        return refuse(403, message, code="host_not_allowed")

    def _is_welcome(self, name: str) -> bool:
        if self._is_open or name in self._names:
            return True
        if is_loopback(name) or name.endswith(".localhost"):
            return True
        return self._takes_addresses and _is_address(name)


def _name(host: str) -> str:
    """The name in a ``Host`` header, without the port, a final dot and brackets; "" if the brackets do not match."""
    host = host.strip().lower()
    if host.startswith("["):
        address, bracket, rest = host[1:].partition("]")
        return address if bracket and _PORT.fullmatch(rest) else ""
    name, colon, port = host.partition(":")
    return name.rstrip(".") if _PORT.fullmatch(colon + port) else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_unspecified(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False
