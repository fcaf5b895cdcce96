"""Identity over meaning: when two canisters, or two histories, say the same.

``docs/identity.md`` specifies every byte. Time, residue, grouping, cache marks, call ids, MIME spelling of inline media and
citations stay outside; a result refers to its call by position; base64 is compared as bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, CanisterStruct
from cannery.messages.content import (
    PLAIN,
    AnyContent,
    AudioContentClass,
    BinaryContentStruct,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.messages.json_text import canonical, decode_json
from cannery.messages.payload import Base64, Location
from cannery.messages.role import Role

VERSION = b"cannery-identity-1"
ROOT = hashlib.sha256(VERSION + b" conversation").digest()
_ORPHAN = b"orphan"


def digest(canister: AnyCanister) -> bytes:
    """The 32-byte digest of what one canister means, outside any conversation."""
    memo = canister.memo()
    known = memo.get("digest")
    if known is None:
        known = memo["digest"] = _hash(_canister_fields(canister))
    return known


def prefix_digests(
    canisters: Iterable[AnyCanister], *, reasoning: bool = True
) -> Iterator[bytes | None]:
    """For each canister the digest of the history up to and with it, or None where it adds nothing.

    An assistant turn without words adds nothing. With ``reasoning=False`` thoughts add nothing either: that is how a
    history is recognised that a client sends back without them.
    """
    chain = ROOT
    ordinals: dict[str, int] = {}
    calls = 0
    for canister in canisters:
        role = canister.role
        if role is Role.Assistant and _adds_nothing(canister, reasoning=reasoning):
            yield None
            continue
        own = digest(canister)
        if role is Role.Invocation:
            ordinals[canister.identifier] = calls  # type: ignore[union-attr]
            calls += 1
        elif role is Role.Result:
            ordinal = ordinals.get(canister.invocation_id)  # type: ignore[union-attr]
            own += _ORPHAN if ordinal is None else b"%d" % ordinal
        chain = hashlib.sha256(chain + own).digest()
        yield chain


def conversation_digest(canisters: Iterable[AnyCanister], *, reasoning: bool = True) -> bytes:
    """The digest of a whole history."""
    last = ROOT
    for chain in prefix_digests(canisters, reasoning=reasoning):
        last = last if chain is None else chain
    return last


def _adds_nothing(canister: CanisterStruct, *, reasoning: bool) -> bool:
    held = canister.held
    if held is absent or held == "":
        return True
    return not reasoning and type(held) is ReasoningContentClass


def _canister_fields(canister: AnyCanister) -> list[bytes]:
    role = canister.role
    fields = [role.value.encode()]
    match role:
        case Role.User | Role.Assistant | Role.Supervisor:
            return fields if canister.held is absent else fields + _held_fields(canister.held)
        case Role.Document:
            title = canister.title  # type: ignore[union-attr]
            fields += [b"title", b"" if title is absent else title.encode()]
            return fields + _held_fields(canister.held)
        case Role.Invocation:
            return fields + _invocation_fields(canister)
        case Role.Result:
            return fields + _result_fields(canister)
        case _:
            assert_never(role)


def _invocation_fields(canister: Any) -> list[bytes]:
    name = canister.name.encode()
    text: str = canister.held
    if canister.is_freeform:
        return [name, b"freeform", text.encode()]
    if not text or text.isspace():
        return [name, b"json", b"{}"]
    return [name, *_json_fields(text)]


def _json_fields(text: str) -> list[bytes]:
    try:
        return [b"json", canonical(decode_json(text)).encode()]
    except (ValueError, RecursionError):
        return [b"text", text.encode()]


def _result_fields(canister: Any) -> list[bytes]:
    fields = [b"error" if canister.is_error else b"ok"]
    held = canister.held
    if held == "" and isinstance(canister.error, str):
        held = canister.error
    if type(held) is PartsContentClass and len(held.parts) == 1:
        held = held.parts[0]
    text = held if type(held) is str else getattr(held, "text", "")
    if type(held) in (str, TextualContentClass) and text[:1] in {"{", "["}:
        kind, value = _json_fields(text)
        return [*fields, b"data" if kind == b"json" else b"text", value]
    return fields + _held_fields(held)


def _held_fields(held: Any) -> list[bytes]:
    return [b"text", held.encode()] if type(held) is str else _content_fields(held)


def _content_fields(content: AnyContent) -> list[bytes]:
    match content:
        case TextualContentClass():
            mime = [] if content.mime_type == PLAIN else [content.mime_type.lower().encode()]
            return [b"text", content.text.encode(), *mime]
        case FileContentClass():
            context = [] if content.context is None else [b"context", content.context.encode()]
            if content.chunks:
                return [b"file", b"parts", *_nested(content.chunks), *context]
            return [b"file", *_payload_fields(content), *context]
        case ImageContentClass() | AudioContentClass() | VideoContentClass():
            return [content.kind.encode(), *_payload_fields(content)]
        case ReasoningContentClass():
            return [
                b"reasoning",
                *(b"text " + text.encode() for text in content.texts),
                *(b"summary " + text.encode() for text in content.summaries),
                b"signature " + (content.signature or "").encode(),
                b"encrypted " + (content.encrypted or "").encode(),
            ]
        case RefusalContentClass():
            return [b"refusal", content.text.encode()]
        case DataContentClass():
            return [b"data", canonical(decode_json(content.json)).encode()]
        case OpaqueContentClass():
            block = canonical(decode_json(content.json)).encode()
            return [b"opaque", content.dialect.encode(), block]
        case PartsContentClass():
            if len(content.parts) == 1:
                return _content_fields(content.parts[0])
            return [b"parts", *_nested(content.parts)]
        case _:
            assert_never(content)


def _nested(contents: Iterable[Any]) -> Iterator[bytes]:
    for content in contents:
        yield _hash(_content_fields(content))


def _payload_fields(content: BinaryContentStruct) -> list[bytes]:
    payload = content.payload
    if isinstance(payload, Location):
        return [payload.kind.encode(), payload.value.encode()]
    if isinstance(payload, bytes):
        return [b"sha256", hashlib.sha256(payload).digest()]
    if isinstance(payload, Base64):
        if not payload.is_readable:
            return [b"not base64", payload.text.encode()]
        return [b"sha256", hashlib.sha256(payload.data).digest()]
    return [b"sha256", bytes.fromhex(payload.content_id.removeprefix("sha256:"))]


def _hash(fields: Iterable[bytes]) -> bytes:
    state = hashlib.sha256(VERSION)
    for field in fields:
        state.update(len(field).to_bytes(8, "big"))
        state.update(field)
    return state.digest()
