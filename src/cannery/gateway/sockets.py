"""The listening socket: an address and a port, bound at once or refused with a reason."""

from __future__ import annotations

import socket

from cannery.errors import ConfigurationError

_BACKLOG = 2048


def address_of(host: str) -> str:
    """The address of a host name."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError("server.host", f"{host}: {error.strerror or error}") from None
    return str(found[0][4][0])


def take_port(address: str, port: int) -> socket.socket:
    """A socket bound to a port; ConfigurationError if it is in use."""
    taken = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((address, port))
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        problem = f"cannot listen on {address}, port {port}: {error.strerror or error}"
        raise ConfigurationError("server.port", problem) from None
    return taken
