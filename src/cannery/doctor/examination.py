"""Runs the checks of a dialect over a body, or over a conversation written in it.

A body is checked unchanged. A conversation of the model is written in the dialect first: in its own dialect without
repairs, so that violations show; in another with repairs, so that only violations that no repair fixes remain.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from cannery.dialects import find_dialect
from cannery.doctor.contract import MESSAGES, Check, Finding, Judged, Object
from cannery.doctor.shared import has_lone_surrogate
from cannery.errors import DialectError
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Request
from cannery.translation import nativize_request
from cannery.wire.places import Path, Places, path_text

_PACKAGE = f"{__package__}.providers"


@cache
def checks_of(dialect: str) -> tuple[Check, ...]:
    """The checks of a dialect; empty if it has none."""
    name = find_dialect(dialect).name
    if importlib.util.find_spec(f"{_PACKAGE}.{name}") is None:
        return ()
    table: tuple[Check, ...] = importlib.import_module(f"{_PACKAGE}.{name}").CHECKS
    return table


def has_checks(dialect: str) -> bool:
    """Whether there are checks for a dialect."""
    return bool(checks_of(dialect))


def read_body(body: bytes | Object, dialect: str) -> tuple[Object, int]:
    """Decode a body, and return it with its size in bytes; lone surrogates are preserved."""
    if isinstance(body, dict):
        return body, 0
    try:
        value: Any = json.loads(body) if has_lone_surrogate(body) else decode_json(body)
    except (ValueError, RecursionError) as error:
        raise DialectError(dialect, "", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DialectError(dialect, "", "the body is not a JSON object")
    return value, len(body)


def examine_body(
    body: bytes | Object,
    dialect: str,
    *,
    model: str | None = None,
    is_request: bool = True,
    makers: Mapping[int, str] | None = None,
) -> tuple[Finding, ...]:
    """Find violations of the known rules of a dialect's provider in a body.

    If the body is not a request (``is_request=False``), only messages are checked. ``makers`` are the models that made
    messages, by position.
    """
    value, size = read_body(body, dialect)
    return judge(Judged(value, model, size, makers), dialect, is_request=is_request)


def judge(
    judged: Judged,
    dialect: str,
    *,
    is_request: bool = True,
    place: Callable[[Path], str] = path_text,
) -> tuple[Finding, ...]:
    """Run all checks of a dialect; ``place`` formats a path."""
    return tuple(
        finding
        for check in checks_of(dialect)
        if is_request or check.about == MESSAGES
        for finding in check.findings(judged, place)
    )


def examine(
    request: Request, dialect: str, *, model: str | None = None, is_request: bool = False
) -> tuple[Finding, ...]:
    """Find violations of the known rules of a provider in a conversation.

    ``message`` is the position of the canister; None if repairs changed the positions. In the dialect that the request
    was read from (``request.source``) it is checked without repairs.
    """
    name = find_dialect(dialect).name
    rendered = nativize_request(request, name)
    places = Places()
    find_dialect(name).read_request(rendered.body, places)
    paths = [path_text(path) for path in places.canisters]
    is_mapped = len(paths) == len(request.conversation)
    makers = dict(_makers(request, paths)) if is_mapped else None
    found = examine_body(rendered.body, name, model=model, is_request=is_request, makers=makers)
    if not is_mapped:
        return tuple(msgspec.structs.replace(finding, message=None) for finding in found)
    return tuple(_located(finding, paths) for finding in found)


def _makers(request: Request, paths: list[str]) -> Iterator[tuple[int, str]]:
    """The model that made each message of a body, from its canisters."""
    for canister, path in zip(request.conversation, paths, strict=True):
        residue = canister.residue
        first = path.partition("[")[2].partition("]")[0]
        if residue is not None and residue.model and first.isdecimal():
            yield int(first), residue.model


def _located(finding: Finding, paths: list[str]) -> Finding:
    """A finding with the position of its canister: the one with the longest path that contains the finding's."""
    if finding.message is None:
        return finding
    own = [
        (len(path), -index)
        for index, path in enumerate(paths)
        if finding.path == path or finding.path.startswith((f"{path}.", f"{path}["))
    ]
    inside = [index for index, path in enumerate(paths) if path.startswith(finding.path)]
    place = -max(own)[1] if own else inside[0] if inside else None
    if place is None:
        return finding
    return msgspec.structs.replace(finding, message=place)
