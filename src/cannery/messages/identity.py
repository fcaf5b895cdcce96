"""Identity over meaning: when two canisters, or two histories, are equal.

``docs/identity.md`` specifies every byte. Time, residue, grouping, cache marks, call ids, the MIME type of media, file
names and citations are excluded; a result refers to its call by position; base64 is compared as bytes. A digest exists
for every canister, and computing one never reads a store: stored content is included by its id.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, assert_never

from cannery.messages import digests
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, CanisterStruct, ResultCanisterClass
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
from cannery.messages.json_text import canonical_text, is_blank, utf8
from cannery.messages.payload import Base64, Location
from cannery.messages.protocols import Canister
from cannery.messages.role import Role

VERSION = b"cannery-identity-1"
# SHA-256 of the version, a space and "conversation".
ROOT = bytes.fromhex("49493650c7be61b16b6cb95021e2fb21aaf6260aad2ebe364bffaad4899f1804")
# A result's text is compared as a JSON value if it is shorter than this and looks like one. Longer text is compared by
# its hash, which a store has at hand.
READ_AS_JSON = 1024
_ORPHAN = b"orphan"
_MODEL_ROLES = frozenset({Role.Assistant.value, Role.Invocation.value})


def digest(canister: Canister) -> bytes:
    """The 32-byte digest of the meaning of one canister, outside any conversation."""
    ours: Any = canister
    memo = ours.memo()
    known = memo.get("digest")
    if known is None:
        held = ours.held
        before = _BEFORE_TEXT.get(ours.role) if type(held) is str and held else None
        known = _hash(_canister_fields(ours)) if before is None else _of_text(before, held)
        memo["digest"] = known
    return known  # type: ignore[no-any-return]


class PrefixChain:
    """The digests of a growing history: each covers all canisters up to it.

    An assistant canister without content adds nothing. With ``reasoning=False`` reasoning adds nothing either, so that
    a history is recognised when a client sends it back without reasoning.
    """

    __slots__ = ("_calls", "_chain", "_ordinals", "_reasoning")

    def __init__(self, *, reasoning: bool = True) -> None:
        self._chain = ROOT
        self._ordinals: dict[str, int] = {}
        self._calls = 0
        self._reasoning = reasoning

    def extend(self, canisters: Iterable[Canister]) -> list[bytes | None]:
        """The digest after each of some more canisters, or None for one that adds nothing."""
        return list(map(self.add, canisters))

    def add(self, canister: Any) -> bytes | None:
        """The digest with one more canister, or None if it adds nothing."""
        role, held = canister.role, canister.held
        if type(held) is str and held and (before := _BEFORE_TEXT.get(role)):
            after = _after_short_text if len(held) <= _SHORT else _after_text
            self._chain = after(self._chain, before, held)
            return self._chain
        if role is Role.Assistant and _adds_nothing(canister, reasoning=self._reasoning):
            return None
        own = digest(canister)
        if role is Role.Invocation:
            self._ordinals[canister.identifier] = self._calls
            self._calls += 1
        elif role is Role.Result:
            own += answer_mark(self._ordinals.get(canister.invocation_id))
        self._chain = continued(self._chain, own)
        return self._chain


class Said(NamedTuple):
    """The digest of a history by which it is recognised.

    Until the model's first answer, ``chain`` covers setup and questions, so that the same question under other
    instructions differs, and ``questions`` covers the questions alone. With the first answer the chain continues from
    the questions, ``questions`` is empty, and setup adds nothing any more: instructions may change.
    """

    chain: bytes
    questions: bytes

    def followed(self, role: str, own: bytes, *, is_setup: bool) -> Said:
        """The history with one more canister, given by its own digest (and a result's mark)."""
        chain, questions = self
        if not questions:
            return self if is_setup else Said(continued(chain, own), b"")
        if is_setup:
            return Said(continued(chain, own), questions)
        if questions == ROOT and role != "user":
            # Everything before the first question is setup, whatever its role.
            return Said(continued(chain, own), questions)
        if role in _MODEL_ROLES:
            return Said(continued(questions, own), b"")
        return Said(continued(chain, own), continued(questions, own))


NOTHING_SAID = Said(ROOT, ROOT)


def continued(chain: bytes, own: bytes) -> bytes:
    """The digest of a history extended by a canister, given by its own digest (and a result's mark)."""
    return digests.sha256(chain + own).digest()


def answer_mark(ordinal: int | None) -> bytes:
    """The addition to a result's own digest: the position of the call it answers, counted from 0; None for none."""
    return _ORPHAN if ordinal is None else b"%d" % ordinal


def meaning(canister: Any, *, reasoning: bool = True) -> bytes | None:
    """The digest of one canister, or None if it adds nothing to a history."""
    if canister.role is Role.Assistant and _adds_nothing(canister, reasoning=reasoning):
        return None
    return digest(canister)


def text_meaning(role: Role, text: str) -> bytes:
    """The digest of a canister of non-empty plain text, in one of the roles that can have it."""
    return _of_text(_BEFORE_TEXT[role], text)


def prefix_digests(
    canisters: Iterable[Canister], *, reasoning: bool = True
) -> Iterator[bytes | None]:
    """For each canister the digest of the history up to and including it, or None if it adds nothing.

    An assistant canister without content adds nothing. With ``reasoning=False`` reasoning adds nothing either, so that
    a history is recognised when a client sends it back without reasoning.
    """
    return map(PrefixChain(reasoning=reasoning).add, canisters)


def _after_text(chain: bytes, before: bytes, text: str) -> bytes:
    """The digest of a history extended by non-empty plain text, by far the most common case."""
    return digests.sha256(chain + _of_text(before, text)).digest()


def _of_text(before: bytes, text: str) -> bytes:
    """The digest of a canister of plain text."""
    return digests.sha256(before + digests.sha256(utf8(text)).digest()).digest()


# Clients send the earlier messages again with every turn, and applications their prompt with every history.
_after_short_text = functools.lru_cache(2048)(_after_text)
_SHORT = 1024


def conversation_digest(canisters: Iterable[Canister], *, reasoning: bool = True) -> bytes:
    """The digest of a whole history."""
    last = ROOT
    for chain in prefix_digests(canisters, reasoning=reasoning):
        last = last if chain is None else chain
    return last


def _adds_nothing(canister: CanisterStruct, *, reasoning: bool) -> bool:
    held = canister.held
    if type(held) is ReasoningContentClass:
        return not reasoning
    return _is_empty(held)


def _is_empty(held: Any) -> bool:
    """Whether held content is absent or empty plain text."""
    if held is absent or type(held) is str:
        return not held
    if type(held) in {TextualContentClass, PartsContentClass}:
        return _content_fields(held) == _no_text()
    return False


def _canister_fields(canister: AnyCanister) -> list[bytes]:
    role = canister.role
    fields = [role.value.encode()]
    match role:
        case Role.Assistant:
            return fields if _is_empty(canister.held) else fields + _held_fields(canister.held)
        case Role.User | Role.Supervisor:
            return fields + _held_fields(canister.held)
        case Role.Document:
            title = canister.title  # type: ignore[union-attr]
            return [*fields, b"" if title is absent else utf8(title), *_held_fields(canister.held)]
        case Role.Invocation:
            return fields + _invocation_fields(canister)
        case Role.Result:
            return fields + _result_fields(canister)  # type: ignore[arg-type]
        case _:
            assert_never(role)


def _invocation_fields(canister: Any) -> list[bytes]:
    name = utf8(canister.name)
    text: str = canister.held
    if canister.is_freeform:
        return [name, b"freeform", utf8(text)]
    if is_blank(text):
        return [name, b"json", b"{}"]
    value = _canonical(text)
    return [name, b"text", utf8(text)] if value is None else [name, b"json", value]


def _result_fields(canister: ResultCanisterClass) -> list[bytes]:
    held = canister.held
    if type(held) is PartsContentClass and len(held.parts) == 1:
        held = held.parts[0]
    stated = canister.stated_error
    if stated is not absent and _is_empty(held):
        held = stated
    fields = [b"error" if canister.is_error else b"ok", *(_json_answer(held) or _held_fields(held))]
    # An error that repeats the content adds nothing to the flag, and wires have only the flag.
    if stated is not absent and _held_fields(stated) != _held_fields(held):
        fields += [b"error", utf8(stated)]
    return fields


def _json_answer(held: Any) -> list[bytes] | None:
    """The fields of short text that is a JSON object or list, as for data content; else None."""
    if type(held) is TextualContentClass and held.is_hydrated:
        held = held.text
    if type(held) is not str or held[:1] not in {"{", "["} or len(utf8(held)) >= READ_AS_JSON:
        return None
    value = _canonical(held)
    return None if value is None else [b"data", value]


def _held_fields(held: Any) -> list[bytes]:
    if type(held) is str:
        return [b"text", digests.sha256(utf8(held)).digest()]
    return _content_fields(held)


def _content_fields(content: AnyContent) -> list[bytes]:
    match content:
        case TextualContentClass():
            return _text_fields(content)
        case FileContentClass():
            context = [] if content.context is None else [b"context", utf8(content.context)]
            if content.chunks:
                return [b"file", b"parts", *map(_nested, content.chunks), *context]
            return [b"file", *_payload_fields(content), *context]
        case ImageContentClass() | AudioContentClass() | VideoContentClass():
            return [content.kind.encode(), *_payload_fields(content)]
        case ReasoningContentClass():
            return [b"reasoning", *_reasoning_fields(content)]
        case RefusalContentClass():
            return [b"refusal", utf8(content.text)]
        case DataContentClass():
            value = _canonical(content.json)
            return _held_fields(content.json) if value is None else [b"data", value]
        case OpaqueContentClass():
            value = _canonical(content.json)
            block = [b"text", utf8(content.json)] if value is None else [b"json", value]
            return [b"opaque", utf8(content.dialect), *block]
        case PartsContentClass():
            if not content.parts:
                return _no_text()
            if len(content.parts) == 1:
                return _held_fields(content.parts[0])
            return [b"parts", *map(_nested, content.parts)]
        case _:
            assert_never(content)


def _text_fields(content: TextualContentClass) -> list[bytes]:
    known = content.content_id
    fields = _held_fields(content.text) if known is absent else [b"text", _id_field(known)]
    mime_type = content.mime_type.partition(";")[0].strip().lower()
    return fields if mime_type == PLAIN else [*fields, utf8(mime_type)]


def _reasoning_fields(content: ReasoningContentClass) -> Iterator[bytes]:
    for text in content.texts:
        yield from (b"text", utf8(text))
    for summary in content.summaries:
        yield from (b"summary", utf8(summary))
    if content.signature:
        yield from (b"signature", utf8(content.signature))
    if content.encrypted:
        yield from (b"encrypted", utf8(content.encrypted))


def _payload_fields(content: BinaryContentStruct) -> list[bytes]:
    payload = content.payload
    if isinstance(payload, Location):
        return [utf8(payload.kind), utf8(payload.value)]
    data: bytes | None
    if isinstance(payload, bytes):
        data = payload
    elif isinstance(payload, Base64):
        data = payload.read()
        if data is None:
            return [b"not base64", utf8(payload.text)]
    else:
        return [b"sha256", _id_field(payload.content_id)]
    return [b"sha256", digests.sha256(data).digest()]


def _id_field(content_id: str) -> bytes:
    """The hash in a content id; an elided id, as printed, counts as its own text."""
    try:
        return bytes.fromhex(content_id.removeprefix("sha256:"))
    except ValueError:
        return utf8(content_id)


def _nested(content: Any) -> bytes:
    return _hash(_held_fields(content))


def _canonical(text: str) -> bytes | None:
    value = canonical_text(text)
    return None if value is None else value.encode()


def _framed(fields: Iterable[bytes]) -> bytes:
    """The version, then fields with their lengths before them."""
    pieces = [VERSION]
    for field in fields:
        pieces += (len(field).to_bytes(8, "big"), field)
    return b"".join(pieces)


def _hash(fields: Iterable[bytes]) -> bytes:
    return digests.sha256(_framed(fields)).digest()


@functools.cache
def _no_text() -> list[bytes]:
    return _held_fields("")


# The hashed bytes for plain text, up to the hash of the text: by far the most common digest.
_BEFORE_TEXT = {
    role: _framed([role.value.encode(), b"text", bytes(32)])[:-32]
    for role in (Role.User, Role.Assistant, Role.Supervisor)
}
