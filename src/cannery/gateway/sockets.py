"""The socket to listen on: an address and a port, taken at once or refused with a reason."""

from __future__ import annotations

import socket

from cannery.errors import ConfigurationError

_BACKLOG = 2048


def address_of(host: str) -> str:
    """The address that a host's name stands for."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError("server.host", f"{host}: {error.strerror or error}") from None
    return str(found[0][4][0])


def take_port(address: str, port: int) -> socket.socket:
    """A socket that has a port; ConfigurationError if somebody else has it."""
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
