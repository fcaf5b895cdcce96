"""What a call's body says about where it goes, without reading the rest of it.

A pass-through needs the model, the stream switch and the roles; everything else in the body is
skipped over. A body that does not have the expected shape gives None, and the dialect says what is
wrong with it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages import Usage
from cannery.roles.vocabularies import VOCABULARIES, Vocabulary


class _Speaker(Struct):
    role: str | None = None


class _Body(Struct):
    model: str | None = None
    stream: bool | None = False
    messages: list[_Speaker] | UnsetType = UNSET
    contents: list[_Speaker] | UnsetType = UNSET
    input: list[_Speaker] | str | UnsetType = UNSET
    thread: Raw | UnsetType = UNSET
    previous_response_id: str | None = None
    conversation: Raw | UnsetType = UNSET
    generate: Raw | UnsetType = UNSET
    store: bool | None = None


class _Reply(Struct):
    choices: list[Raw] | UnsetType = UNSET
    content: list[Raw] | UnsetType = UNSET
    candidates: list[Raw] | UnsetType = UNSET
    output: list[Raw] | UnsetType = UNSET
    promptFeedback: Raw | UnsetType = UNSET  # noqa: N815 - the wire's own name
    usage: dict[str, Any] | None = None
    usageMetadata: dict[str, Any] | None = None  # noqa: N815 - the wire's own name
    id: str | None = None


class _Counts(Struct):
    usage: dict[str, Any] | None = None
    usageMetadata: dict[str, Any] | None = None  # noqa: N815 - the wire's own name


class Shape(Struct, frozen=True):
    """Where a dialect keeps its messages, and which roles they may have as they stand."""

    messages: str
    vocabulary: Vocabulary
    reply: tuple[str, ...]

    @property
    def exact(self) -> frozenset[str | None]:
        """The roles that need no normalization."""
        return frozenset(self.vocabulary.readings)


SHAPES = {
    "openai_chat": Shape("messages", VOCABULARIES["openai"], ("choices",)),
    "openai_responses": Shape("input", VOCABULARIES["openai"], ("output",)),
    "anthropic_messages": Shape("messages", VOCABULARIES["anthropic"], ("content",)),
    "gemini_generate": Shape("contents", VOCABULARIES["gemini"], ("candidates", "promptFeedback")),
}
_USUAL = Shape("messages", VOCABULARIES["openai"], ())
_OPTIONAL = frozenset({"input", "contents"})
_EXACT = {name: shape.exact for name, shape in SHAPES.items()}

_decode_body = msgspec.json.Decoder(_Body).decode
_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_counts = msgspec.json.Decoder(_Counts).decode


class Glance(Struct, frozen=True):
    """What was seen of a body."""

    model: str | None
    stream: bool
    messages: int
    has_exact_roles: bool
    is_stateful: bool
    is_continuable: bool


def shape_of(dialect: str) -> Shape:
    """The shape of a dialect's bodies."""
    return SHAPES.get(dialect, _USUAL)


def glance(dialect: str, body: bytes) -> Glance | None:
    """What a body says about where it goes, or None if it is not shaped as expected."""
    try:
        seen = _decode_body(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    name = shape_of(dialect).messages
    messages = getattr(seen, name)
    if messages is UNSET:
        return None
    is_stateful = (
        seen.previous_response_id is not None
        or seen.thread is not UNSET
        or seen.conversation is not UNSET
        or seen.generate is not UNSET
    )
    exact = _EXACT.get(dialect) or _USUAL.exact
    count = 1
    is_exact = True
    if type(messages) is list:
        count = len(messages)
        is_free = name in _OPTIONAL
        for speaker in messages:
            if speaker.role not in exact and not (is_free and speaker.role is None):
                is_exact = False
                break
    is_continuable = name == "input" and seen.store is not False
    return Glance(seen.model, bool(seen.stream), count, is_exact, is_stateful, is_continuable)


class Gist(Struct, frozen=True):
    """What was seen of a reply: its tokens, and its id."""

    usage: Usage
    identifier: str | None


def gist(dialect: str, body: bytes) -> Gist | None:
    """What a whole reply says, or None if it is not a reply of the dialect."""
    try:
        seen = _decode_reply(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    wanted = shape_of(dialect).reply
    if wanted and all(getattr(seen, name) is UNSET for name in wanted):
        return None
    return Gist(_usage(seen.usage or seen.usageMetadata or {}), seen.id)


def usage_of(body: bytes) -> Usage | None:
    """The tokens that a body tells of, whatever else it is; None if it tells none."""
    seen = _decode_counts(body)
    told = seen.usage or seen.usageMetadata
    return _usage(told) if told else None


def _usage(told: dict[str, Any]) -> Usage:
    """The tokens of a reply, by whatever names its dialect has for them."""
    taken = _count(told, "prompt_tokens", "input_tokens", "promptTokenCount")
    given = _count(told, "completion_tokens", "output_tokens", "candidatesTokenCount")
    given += _count(told, "thoughtsTokenCount")
    details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
    read = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    read = read or _count(told, "cachedContentTokenCount")
    # Anthropic counts apart what a cache gave and took.
    apart = _count(told, "cache_read_input_tokens")
    written = _count(told, "cache_creation_input_tokens")
    return Usage(taken + apart + written, given, read + apart, written)


def _count(usage: dict[str, Any], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if type(value) is int:
            return value
    return 0
