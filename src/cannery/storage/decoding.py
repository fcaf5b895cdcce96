"""Lines to canisters: text and binary content stays in the store until it is accessed, or all is hydrated.

Strings that the model holds directly (arguments, reasoning, JSON, residue) are read at once, together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

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
from cannery.storage.shapes import (
    AssistantShape,
    AudioShape,
    BinaryShape,
    ContentShape,
    DataShape,
    DocumentShape,
    FileShape,
    ImageShape,
    InvocationShape,
    LineShape,
    OpaqueShape,
    PartsShape,
    ReasoningShape,
    Reference,
    RefusalShape,
    ResultShape,
    SupervisorShape,
    TextShape,
    UserShape,
    VideoShape,
    decode_line,
    decode_residue,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPOKEN: dict[type, Callable[..., Any]] = {UserShape: new_user, AssistantShape: new_assistant}


class Decoder:
    """Decodes for one store."""

    def __init__(self, cache: ContentCache) -> None:
        self._cache = cache

    def decode(self, lines: Sequence[bytes], *, hydrate: bool = False) -> list[AnyCanister]:
        """The canisters of some lines; with ``hydrate`` nothing is left in the store."""
        return self._make(_read(lines), hydrate=hydrate)

    def check(self, lines: Sequence[bytes]) -> None:
        """Raise DamageError for lines that cannot be decoded; most lines are checked without decoding."""
        known: set[Any] = set()
        odd = []
        for shape in _read(lines):
            content: Any = shape.content if type(shape) in _SPOKEN else None  # type: ignore[union-attr]
            if type(content) is not TextShape or shape.residue_id:
                odd.append(shape)
            elif content.text is UNSET and content.content_id not in known:
                # Inline text is valid as it is; stored text must have an id by which it is found.
                known.add(content.content_id)
                _digest_of(_or_empty(content.content_id))
        self._make(odd)

    def _make(self, shapes: Sequence[LineShape], *, hydrate: bool = False) -> list[AnyCanister]:
        made: list[Any] = list(map(_plain, shapes))
        rest = [index for index, canister in enumerate(made) if canister is None]
        if not rest:
            return made
        wanted: dict[str, int] = {}
        unfolded: dict[int, list[AnyCanister]] = {}
        try:
            for index in rest:
                _collect(shapes[index], wanted, everything=hydrate)
            reading = _Reading(self._cache, self._get(wanted), hydrate=hydrate)
            for index in rest:
                shape = shapes[index]
                canister = reading.kept_text(shape)
                if canister is None:
                    canister, *more = reading.canisters(shape)
                    if more:
                        unfolded[index] = more
                made[index] = canister
        except UnicodeDecodeError as error:
            raise DamageError("line", f"text that is not UTF-8: {error.reason}") from None
        except RecursionError:
            raise DamageError("line", "content that is nested too deeply") from None
        for index in sorted(unfolded, reverse=True):
            made[index + 1 : index + 1] = unfolded[index]
        return made

    def _get(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        """Content by id, read together."""
        digests = {content_id: _digest_of(content_id) for content_id in wanted}
        sizes = {digest: wanted[content_id] for content_id, digest in digests.items()}
        found = self._cache.get_many(sizes) if sizes else {}
        return {content_id: found[digest] for content_id, digest in digests.items()}


def _read(lines: Sequence[bytes]) -> list[LineShape]:
    try:
        return list(map(decode_line, lines))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DamageError("line", f"not a canister: {error}") from None


def _digest_of(content_id: str) -> bytes:
    try:
        return check_digest(content_id)
    except InputError as error:
        raise DamageError("line", str(error)) from None


def _plain(shape: LineShape) -> AnyCanister | None:
    """The canister of a line of plain text, the common case; None for any other line."""
    new = _SPOKEN.get(type(shape))
    if new is None:
        return None
    content: Any = shape.content  # type: ignore[union-attr]
    if type(content) is not TextShape:
        return None
    text = content.text
    if text is UNSET or content.mime_type is not UNSET or content.citations or shape.residue_id:
        return None
    timestamp = shape.timestamp
    if timestamp is UNSET or timestamp.tzinfo is None:
        return None
    residue = shape.residue
    return new(text, timestamp, shape.joined, None if residue is UNSET else residue, None)  # type: ignore[no-any-return]


def _collect(shape: LineShape, wanted: dict[str, int], *, everything: bool) -> None:
    """The ids of the contents needed to build a canister, in the order in which it was written."""
    if shape.residue_id:
        wanted[shape.residue_id] = -1
    if type(shape) is InvocationShape:
        if shape.arguments_id:
            wanted[shape.arguments_id] = -1
        return
    content: Any = shape.content  # type: ignore[union-attr]
    if type(content) is list:
        for part in content:
            _collect_content(part, wanted, everything=everything)
    elif type(content) is TextShape and type(shape) is not ResultShape:
        if everything and content.content_id is not UNSET:
            wanted[content.content_id] = content.size
    elif content is not UNSET and content is not None:
        _collect_content(content, wanted, everything=everything)


def _collect_content(shape: ContentShape, wanted: dict[str, int], *, everything: bool) -> None:
    long: tuple[Any, ...] = ()
    match shape:
        case TextShape():
            # Identity depends on the short text of a result.
            if shape.content_id is not UNSET and (everything or 0 <= shape.size < READ_AS_JSON):
                wanted[shape.content_id] = shape.size
        case RefusalShape():
            if shape.content_id is not UNSET:
                wanted[shape.content_id] = shape.size
        case BinaryShape():
            _collect_binary(shape, wanted, everything=everything)
            long = (shape.base64,)
        case ReasoningShape():
            long = (*shape.texts, *shape.summaries, shape.signature, shape.encrypted)
        case DataShape() | OpaqueShape():
            long = (shape.json,)
        case PartsShape():
            for part in shape.parts:
                _collect_content(part, wanted, everything=everything)
        case _:
            assert_never(shape)
    wanted.update((text.content_id, text.size) for text in long if type(text) is Reference)


def _collect_binary(shape: BinaryShape, wanted: dict[str, int], *, everything: bool) -> None:
    if shape.spelling is not UNSET:
        wanted[shape.spelling] = -1
    elif everything and shape.content_id is not UNSET:
        wanted[shape.content_id] = shape.size
    if isinstance(shape, FileShape):
        if isinstance(shape.context, Reference):
            wanted[shape.context.content_id] = shape.context.size
        for chunk in () if shape.chunks is UNSET else shape.chunks:
            _collect_content(chunk, wanted, everything=everything)


class _Reading:
    """Builds canisters from shapes, with the contents that were read for them."""

    def __init__(self, cache: ContentCache, found: dict[str, bytes], *, hydrate: bool) -> None:
        self._cache = cache
        self._found = found
        self._texts: dict[str, Any] = {}
        self._hydrate = hydrate

    def kept_text(self, shape: LineShape) -> AnyCanister | None:
        """The canister of a line whose plain text is in the store; None for any other line."""
        new = _SPOKEN.get(type(shape))
        if new is None:
            return None
        content: Any = shape.content  # type: ignore[union-attr]
        if (
            type(content) is not TextShape
            or content.content_id is UNSET
            or content.mime_type is not UNSET
            or content.citations
            or shape.residue_id
            or shape.timestamp is UNSET
            or shape.timestamp.tzinfo is None
        ):
            return None
        residue = None if shape.residue is UNSET else shape.residue
        held = self._texts.get(content.content_id)
        if held is None:
            data = self._found.get(content.content_id)
            held = new_text(self._stored(content)) if data is None else data.decode()
            self._texts[content.content_id] = held
        return new(held, shape.timestamp, shape.joined, residue, None)  # type: ignore[no-any-return]

    def canisters(self, shape: LineShape) -> list[AnyCanister]:
        """The canister of a line; several if its content is a list."""
        if type(shape) is InvocationShape:
            return [self._invocation(shape)]
        content: Any = shape.content  # type: ignore[union-attr]
        if type(content) is list:
            return self._unfold(shape, content)
        if content is UNSET or content is None:
            return [self._canister(shape, absent)]
        return [self._canister(shape, hold(self._content(content)))]

    def _unfold(self, shape: LineShape, contents: list[ContentShape]) -> list[AnyCanister]:
        found = []
        for index, content in enumerate(contents):
            if index:
                shape = msgspec.structs.replace(shape, joined=True, residue=UNSET, residue_id="")
            found.append(self._canister(shape, hold(self._content(content))))
        if not found:
            raise DamageError("line", "an empty list of contents")
        return found

    def _surroundings(self, shape: LineShape) -> tuple[Any, ...]:
        timestamp = _EPOCH if shape.timestamp is UNSET else shape.timestamp
        if timestamp.tzinfo is None:
            # Another program may write no zone, which means UTC.
            timestamp = timestamp.replace(tzinfo=UTC)
        residue = None if shape.residue is UNSET else shape.residue
        if shape.residue_id:
            residue = _residue(self._found[shape.residue_id])
        return (timestamp, shape.joined, residue, None)

    def _canister(self, shape: Any, held: Any) -> AnyCanister:
        common = (held, *self._surroundings(shape))
        made: AnyCanister
        match shape:
            case UserShape():
                made = new_user(*common)
            case AssistantShape():
                made = new_assistant(*common)
            case ResultShape():
                made = new_result(*common, shape.invocation_id, _or_absent(shape.error))
            case SupervisorShape():
                made = new_supervisor(*common, _or_absent(shape.rank))
            case DocumentShape():
                made = new_document(*common, _or_absent(shape.title))
            case _:
                raise DamageError("line", f"{type(shape).__name__} has no content")
        return made

    def _invocation(self, shape: InvocationShape) -> AnyCanister:
        call = (shape.identifier, shape.name, shape.freeform)
        return new_invocation(self._arguments(shape), *self._surroundings(shape), *call)  # type: ignore[no-any-return]

    def _arguments(self, shape: InvocationShape) -> str:
        if shape.arguments_id:
            return self._found[shape.arguments_id].decode()
        data = bytes(shape.arguments)
        return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode()

    def _content(self, shape: ContentShape) -> AnyContent:
        made: AnyContent
        match shape:
            case TextShape():
                mime_type = PLAIN if shape.mime_type is UNSET else shape.mime_type
                made = new_text(self._text(shape), mime_type, shape.citations)
            case ImageShape():
                made = new_image(self._payload(shape), _or_empty(shape.mime_type))
            case AudioShape():
                made = new_audio(self._payload(shape), _or_empty(shape.mime_type))
            case VideoShape():
                made = new_video(self._payload(shape), _or_empty(shape.mime_type))
            case FileShape():
                made = self._file(shape)
            case ReasoningShape():
                made = self._reasoning(shape)
            case RefusalShape():
                made = new_refusal(self._eager(shape))
            case DataShape():
                made = new_data(self._long(shape.json))
            case OpaqueShape():
                names = (_or_empty(shape.dialect), _or_empty(shape.tag))
                made = new_opaque(*names, self._long(shape.json))
            case PartsShape():
                made = new_parts(tuple(map(self._content, shape.parts)))
            case _:
                assert_never(shape)
        return made

    def _text(self, shape: TextShape) -> str | StoredContent:
        if shape.text is not UNSET:
            return shape.text
        if shape.content_id is UNSET:
            raise DamageError("line", "a text without text or content_id")
        return self._eager(shape) if shape.content_id in self._found else self._stored(shape)

    def _eager(self, shape: TextShape | RefusalShape) -> str:
        if shape.content_id is not UNSET:
            return self._found[shape.content_id].decode()
        return _or_empty(shape.text)

    def _stored(self, shape: TextShape | BinaryShape) -> StoredContent:
        return StoredContent(_digest_of(_or_empty(shape.content_id)), shape.size, self._cache)

    def _payload(self, shape: BinaryShape) -> Any:
        if shape.spelling is not UNSET:
            return Base64(self._found[shape.spelling].decode())
        if shape.content_id is not UNSET:
            return self._found[shape.content_id] if self._hydrate else self._stored(shape)
        if shape.location is not UNSET:
            return shape.location
        if shape.base64 is not UNSET:
            return Base64(self._long(shape.base64))
        raise DamageError("line", "binary content without content_id, location or base64")

    def _file(self, shape: FileShape) -> AnyContent:
        return new_file(  # type: ignore[no-any-return]
            self._payload(shape),
            _or_empty(shape.mime_type),
            None if shape.name is UNSET else shape.name,
            self._optional(shape.context),
            None if shape.citable is UNSET else shape.citable,
            () if shape.chunks is UNSET else tuple(map(self._content, shape.chunks)),
        )

    def _reasoning(self, shape: ReasoningShape) -> AnyContent:
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


def _residue(data: bytes) -> Any:
    try:
        return decode_residue(data)
    except msgspec.MsgspecError as error:
        raise DamageError("line", f"not a residue: {error}") from None


def _or_empty(text: Any) -> str:
    return "" if text is UNSET else text


def _or_absent(value: Any) -> Any:
    return absent if value is UNSET else value
