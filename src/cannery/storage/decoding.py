"""Lines to canisters: text and binary content stays in the store until it is looked at, or all is hydrated.

Strings that the model holds as they are (arguments, reasoning, JSON, residue) are read at once, together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from cannery.backends import check_digest
from cannery.errors import DamageError, InputError
from cannery.messages import AnyCanister, AnyContent, Base64, absent
from cannery.messages.canisters import (
    hold,
    new_assistant,
    new_document,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.content import (
    PLAIN,
    new_audio,
    new_data,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_refusal,
    new_text,
    new_video,
)
from cannery.messages.identity import READ_AS_JSON
from cannery.storage.content import ContentCache, StoredContent
from cannery.storage.shapes import ContentShape, LineShape, Reference, decode_line, decode_residue

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_ROLES: dict[str, Callable[..., Any]] = {"user": new_user, "assistant": new_assistant}
_BINARY: dict[str, Callable[..., Any]] = {
    "image": new_image,
    "audio": new_audio,
    "video": new_video,
}


class Decoder:
    """Decodes for one store."""

    def __init__(self, cache: ContentCache) -> None:
        self._cache = cache

    def decode(self, lines: Sequence[bytes], *, hydrate: bool = False) -> list[AnyCanister]:
        """The canisters of some lines; with ``hydrate`` nothing is left in the store."""
        shapes = [_read(line) for line in lines]
        made: list[Any] = [_plain(shape) for shape in shapes]
        rest = [index for index, canister in enumerate(made) if canister is None]
        wanted: set[str] = set()
        for index in rest:
            _collect(shapes[index], wanted, everything=hydrate)
        found = self._cache.get_many(map(check_digest, wanted)) if wanted else {}
        texts = {f"sha256:{digest.hex()}": data for digest, data in found.items()}
        reading = _Reading(self._cache, texts, hydrate=hydrate)
        unfolded: dict[int, list[AnyCanister]] = {}
        for index in rest:
            shape = shapes[index]
            canister = reading.kept_text(shape)
            if canister is None:
                canister, *more = reading.canisters(shape)
                if more:
                    unfolded[index] = more
            made[index] = canister
        for index in sorted(unfolded, reverse=True):
            made[index + 1 : index + 1] = unfolded[index]
        return made


def _plain(shape: LineShape) -> AnyCanister | None:
    """The canister of a line of plain text, as most are; None for any other."""
    content = shape.content
    if (
        type(content) is not ContentShape
        or content.text is UNSET
        or content.mime_type is not UNSET
        or content.type != "text"
        or content.citations
        or shape.residue_id
    ):
        return None
    new = _PLAIN_ROLES.get(shape.role)
    if new is None or shape.timestamp is UNSET:
        return None
    residue = None if shape.residue is UNSET else shape.residue
    return new(content.text, shape.timestamp, shape.joined, residue, None)  # type: ignore[no-any-return]


def _read(line: bytes) -> LineShape:
    try:
        return decode_line(line)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise DamageError("line", f"not a canister: {error}") from None


def _collect(shape: LineShape, wanted: set[str], *, everything: bool) -> None:
    """The ids of what has to be read to make a canister."""
    content = shape.content
    if type(content) is ContentShape:
        if content.type == "text" and shape.role != "result":
            if everything and content.content_id is not UNSET:
                wanted.add(content.content_id)
        else:
            _collect_content(content, wanted, everything=everything)
    elif type(content) is list:
        for part in content:
            _collect_content(part, wanted, everything=everything)
    if shape.arguments_id:
        wanted.add(shape.arguments_id)
    if shape.residue_id:
        wanted.add(shape.residue_id)


def _collect_content(shape: ContentShape, wanted: set[str], *, everything: bool) -> None:
    if shape.spelling is not UNSET:
        wanted.add(shape.spelling)
    elif shape.content_id is not UNSET and (
        everything
        or shape.type == "refusal"
        # Identity looks into the short text of a result.
        or (shape.type == "text" and 0 <= shape.size < READ_AS_JSON)
    ):
        wanted.add(shape.content_id)
    long = (shape.base64, shape.context, shape.signature, shape.encrypted, shape.json)
    for text in (*long, *shape.texts, *shape.summaries):
        if type(text) is Reference:
            wanted.add(text.content_id)
    for inside in (shape.chunks, shape.parts):
        if inside is not UNSET:
            for part in inside:
                _collect_content(part, wanted, everything=everything)


class _Reading:
    """Building canisters from shapes, with the content that was read for them."""

    def __init__(self, cache: ContentCache, found: dict[str, bytes], *, hydrate: bool) -> None:
        self._cache = cache
        self._found = found
        self._texts: dict[str, str] = {}
        self._hydrate = hydrate

    def kept_text(self, shape: LineShape) -> AnyCanister | None:
        """The canister of a line whose plain text is in the store; None for any other."""
        content = shape.content
        if (
            type(content) is not ContentShape
            or content.type != "text"
            or content.content_id is UNSET
            or content.mime_type is not UNSET
            or content.citations
            or shape.residue_id
        ):
            return None
        new = _PLAIN_ROLES.get(shape.role)
        if new is None or shape.timestamp is UNSET:
            return None
        residue = None if shape.residue is UNSET else shape.residue
        held: Any = self._texts.get(content.content_id)
        if held is None:
            data = self._found.get(content.content_id)
            if data is None:
                held = new_text(self._stored(content))
            else:
                held = self._texts[content.content_id] = data.decode()
        return new(held, shape.timestamp, shape.joined, residue, None)  # type: ignore[no-any-return]

    def canisters(self, shape: LineShape) -> list[AnyCanister]:
        """The canister of a line; several if its content is a list."""
        content = shape.content
        if type(content) is list:
            return self._unfold(shape, content)
        if type(content) is not ContentShape:
            return [self._canister(shape, absent)]
        return [self._canister(shape, hold(self._content(content)))]

    def _unfold(self, shape: LineShape, contents: list[ContentShape]) -> list[AnyCanister]:
        found = []
        for index, content in enumerate(contents):
            if index:
                shape = msgspec.structs.replace(shape, joined=True, residue=UNSET, residue_id="")
            found.append(self._canister(shape, hold(self._content(content))))
        return found

    def _canister(self, shape: LineShape, held: Any) -> AnyCanister:
        timestamp = _EPOCH if shape.timestamp is UNSET else shape.timestamp
        residue = None if shape.residue is UNSET else shape.residue
        if shape.residue_id:
            residue = decode_residue(self._found[shape.residue_id])
        common = (held, timestamp, shape.joined, residue, None)
        role = shape.role
        if role == "assistant":
            return new_assistant(*common)  # type: ignore[no-any-return]
        if role == "invocation":
            call = (shape.identifier, shape.name, shape.freeform)
            return new_invocation(self._arguments(shape), *common[1:], *call)  # type: ignore[no-any-return]
        if held is absent:
            raise DamageError("line", f"a {role!r} without content")
        if role == "user":
            return new_user(*common)  # type: ignore[no-any-return]
        if role == "result":
            error = absent if shape.error is UNSET else shape.error
            return new_result(*common, shape.invocation_id, error)  # type: ignore[no-any-return]
        if role == "supervisor":
            return new_supervisor(*common, absent if shape.rank is UNSET else shape.rank)  # type: ignore[no-any-return]
        if role == "document":
            return new_document(*common, absent if shape.title is UNSET else shape.title)  # type: ignore[no-any-return]
        raise DamageError("line", f"unknown role {role[:40]!r}")

    def _arguments(self, shape: LineShape) -> str:
        if shape.arguments_id:
            return self._found[shape.arguments_id].decode()
        data = bytes(shape.arguments)
        return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode()

    def _content(self, shape: ContentShape) -> AnyContent:
        kind = shape.type
        if kind == "text":
            mime_type = PLAIN if shape.mime_type is UNSET else shape.mime_type
            return new_text(self._text(shape), mime_type, shape.citations)  # type: ignore[no-any-return]
        if kind in _BINARY:
            return _BINARY[kind](self._payload(shape), _or_empty(shape.mime_type))  # type: ignore[no-any-return]
        if kind == "file":
            return self._file(shape)
        if kind == "reasoning":
            return self._reasoning(shape)
        if kind == "refusal":
            return new_refusal(self._eager(shape))  # type: ignore[no-any-return]
        if kind == "data":
            return new_data(self._long(shape.json))  # type: ignore[no-any-return]
        if kind == "opaque":
            json = self._long(shape.json)
            return new_opaque(_or_empty(shape.dialect), _or_empty(shape.tag), json)  # type: ignore[no-any-return]
        if kind == "parts" and shape.parts is not UNSET:
            return new_parts(tuple(self._content(part) for part in shape.parts))  # type: ignore[no-any-return]
        raise DamageError("line", f"unknown content type {kind[:40]!r}")

    def _text(self, shape: ContentShape) -> str | StoredContent:
        if shape.text is not UNSET:
            return shape.text
        if shape.content_id is UNSET:
            raise DamageError("line", "a text without text or content_id")
        return self._eager(shape) if shape.content_id in self._found else self._stored(shape)

    def _eager(self, shape: ContentShape) -> str:
        if shape.content_id is not UNSET:
            return self._found[shape.content_id].decode()
        return _or_empty(shape.text)

    def _stored(self, shape: ContentShape) -> StoredContent:
        try:
            digest = check_digest(_or_empty(shape.content_id))
        except InputError as error:
            raise DamageError("line", str(error)) from None
        return StoredContent(digest, shape.size, self._cache)

    def _payload(self, shape: ContentShape) -> Any:
        if shape.spelling is not UNSET:
            return Base64(self._found[shape.spelling].decode())
        if shape.content_id is not UNSET:
            return self._found[shape.content_id] if self._hydrate else self._stored(shape)
        if shape.location is not UNSET:
            return shape.location
        if shape.base64 is not UNSET:
            return Base64(self._long(shape.base64))
        raise DamageError("line", f"{shape.type} without content_id, location or base64")

    def _file(self, shape: ContentShape) -> AnyContent:
        return new_file(  # type: ignore[no-any-return]
            self._payload(shape),
            _or_empty(shape.mime_type),
            None if shape.name is UNSET else shape.name,
            self._optional(shape.context),
            None if shape.citable is UNSET else shape.citable,
            () if shape.chunks is UNSET else tuple(map(self._content, shape.chunks)),
        )

    def _reasoning(self, shape: ContentShape) -> AnyContent:
        return new_reasoning(  # type: ignore[no-any-return]
            tuple(map(self._long, shape.texts)),
            tuple(map(self._long, shape.summaries)),
            self._optional(shape.signature),
            self._optional(shape.encrypted),
            None if shape.origin is UNSET else shape.origin,
        )

    def _optional(self, text: Any) -> str | None:
        return None if text is UNSET else self._long(text)

    def _long(self, text: Any) -> str:
        if type(text) is Reference:
            return self._found[text.content_id].decode()
        return _or_empty(text)


def _or_empty(text: Any) -> str:
    return "" if text is UNSET else text
