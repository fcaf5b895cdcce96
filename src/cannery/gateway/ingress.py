"""Checks a call before it is forwarded: limits, and roles in the spelling of its dialect.

Role normalization has no switch. A body with correct roles is unchanged; otherwise only the roles are changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from cannery.errors import RoleError, WireRoleError
from cannery.gateway.admission import SMALL_BYTES, Admission
from cannery.gateway.calls import Call
from cannery.gateway.packing import find_packing
from cannery.gateway.refusals import refuse
from cannery.gateway.settings import Limits
from cannery.roles.counters import RoleCounters
from cannery.roles.mappings import RoleMappings
from cannery.roles.normalization import normalize_role, normalize_roles
from cannery.roles.vocabularies import CLIENT
from cannery.wire.bodies import encode, read_object
from cannery.wire.contract import Dialect

# What is assumed of a body without a length, and how many times its length a compressed body may take.
_UNANNOUNCED = 1 << 20
_PACKED = 8


def check_head(call: Call, limits: Limits) -> int | None:
    """Refuse a request that declares too large a size; returns the length of the body, if declared."""
    if call.scope.header_bytes > limits.header_bytes:
        raise refuse(431, f"the headers are larger than {limits.header_bytes} bytes")
    length = call.header("content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise refuse(400, "content-length is not a number")
    if int(length) > limits.body_bytes:
        raise _too_large(limits)
    return int(length)


async def read_body(call: Call, limits: Limits, admission: Admission) -> bytes:
    """The body of a call, within the limits of size and time; cached after the first read."""
    if call.has_body:
        return call.body
    length = check_head(call, limits)
    encoding = call.header("content-encoding")
    unpack = None if encoding is None else find_packing(encoding)
    packed = 1 if unpack is None else _PACKED
    if length is not None:
        await admission.enter(call, min(length * packed, limits.body_bytes))
    try:
        if length is None:
            body = await _read_unannounced(call, limits, admission)
        else:
            body = await call.proto()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not call.is_late or task is None:
            raise
        task.uncancel()
        call.has_body = True
        close = [("connection", "close")]
        message = f"the body took longer than {limits.body_seconds:g} s"
        raise refuse(408, message, headers=close) from None
    call.has_body = True
    if length is not None and len(body) < length:
        raise refuse(400, "the body is shorter than its content-length")
    if unpack is not None:
        try:
            body = unpack(body, limits.body_bytes)
        except OverflowError:
            raise _too_large(limits) from None
    call.body_bytes = len(body)
    admission.correct(call, len(body))
    return body


async def hear_out(call: Call, limits: Limits) -> None:
    """Read the body of a refused call: in HTTP/2 the answer would otherwise overtake it and be lost."""
    if call.has_body or not call.scope.http_version.startswith("2"):
        return
    call.has_body = True
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.body_seconds):
            async for piece in call.proto:
                size += len(piece)
                if size > limits.body_bytes:
                    return


async def _read_unannounced(call: Call, limits: Limits, admission: Admission) -> bytes:
    pieces: list[bytes] = []
    size = 0
    is_let_in = False
    async for piece in call.proto:
        size += len(piece)
        if size > SMALL_BYTES and not is_let_in:
            await admission.enter(call, min(_UNANNOUNCED, limits.body_bytes))
            is_let_in = True
        if size > limits.body_bytes:
            call.has_body = True
            raise _too_large(limits)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limits: Limits) -> Exception:
    close = [("connection", "close")]
    return refuse(413, f"the body is larger than {limits.body_bytes} bytes", headers=close)


class RoleGate:
    """Normalizes the roles of bodies."""

    def __init__(self, mappings: RoleMappings | None, *, development: bool) -> None:
        self.counters = RoleCounters()
        self._mappings = mappings
        self._development = development

    def configure(self, mappings: RoleMappings | None, *, development: bool) -> None:
        """Apply other settings and keep the counts."""
        self._mappings = mappings
        self._development = development

    def pass_exact(self, messages: int) -> None:
        """Count messages with correct roles."""
        self.counters.accept(messages)

    def normalize(self, call: Call, dialect: Dialect, body: bytes) -> bytes:
        """A body with the role spellings of its dialect; RoleError for an unknown role."""
        value = read_object(dialect.name, body)
        messages = value.get(dialect.messages)
        if not isinstance(messages, list):
            return body
        places = list(_with_roles(messages, dialect))
        spoken = [messages[index] for index in places]
        roles = self._normalized(call, dialect, spoken, places)
        if all(message.get("role") == role for message, role in zip(spoken, roles, strict=True)):
            return body
        for index, role in zip(places, roles, strict=True):
            messages[index] = {**messages[index], "role": role}
        return encode(value)

    def _normalized(
        self, call: Call, dialect: Dialect, spoken: list[Any], places: list[int]
    ) -> list[str]:
        client = _client_of(call)
        try:
            report = normalize_roles(
                spoken,
                vocabulary=dialect.vocabulary,
                mappings=self._mappings,
                client=client,
                path=dialect.messages,
                development=self._development,
                counters=self.counters,
            )
        except RoleError as error:
            raise _as_clients_read_it(error, dialect, places) from None
        return [str(message["role"]) for message in report.messages]


def _with_roles(messages: list[Any], dialect: Dialect) -> Iterable[int]:
    """The positions of the messages that have a role to be normalized."""
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        if "role" in message or dialect.needs_roles:
            yield index


def _as_clients_read_it(error: RoleError, dialect: Dialect, places: list[int]) -> RoleError:
    """The error in the words of the client vocabulary, with the position in the received body."""
    position = (error.path or "").split(".")[1:2]
    index = places[int(position[0])] if position and position[0].isdigit() else 0
    path = f"{dialect.messages}.{index}.role"
    try:
        normalize_role(error.received, vocabulary=CLIENT, path=path)
    except RoleError as clear:
        return WireRoleError(dialect.name, clear)
    text = str(error).replace(str(error.path), path, 1)
    return WireRoleError(dialect.name, RoleError(text, received=error.received, path=path))


def _client_of(call: Call) -> str | None:
    """The configured name of a client: its header, or the start of its user agent."""
    named = call.header("x-cannery-client")
    if named:
        return str(named)
    agent = call.header("user-agent")
    return str(agent).partition("/")[0].strip() if agent else None
