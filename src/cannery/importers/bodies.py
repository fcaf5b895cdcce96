"""Recognises request bodies in files, by more than one key.

A body is a request only if a dialect finds messages in it, and it has no field in which other programs store answers.
"""

from __future__ import annotations

from typing import Any

from cannery import detection
from cannery.errors import InputError
from cannery.messages import Request, Role
from cannery.translation import normalize_request
from cannery.wire.signs import ANSWERS

_LISTS = ("messages", "contents", "input")


def request_of(body: Any) -> tuple[detection.Detection, Request]:
    """Read a body as a request, and return how its dialect was detected; InputError if it is not one."""
    if not isinstance(body, dict):
        raise InputError("a body is a JSON object")
    found = detection.detect(body)
    if found.kind != "request":
        raise InputError(f"a {found.kind} of {found.dialect}, not a request")
    unread = sorted(ANSWERS & body.keys())
    if unread:
        raise InputError(f"no request has {', '.join(unread)}")
    if "model" not in body and not any(isinstance(body.get(key), list) for key in _LISTS):
        raise InputError("it names no model and has no list of messages")
    request = normalize_request(body, found.dialect)
    if all(canister.role is Role.Supervisor for canister in request.conversation):
        raise InputError("only instructions are in it")
    return found, request
