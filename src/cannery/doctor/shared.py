"""Rules that several providers share, and their fixes: text, names, numbers, media, types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cannery.doctor.contract import Broken, Judged, Object
from cannery.doctor.images import Picture, decoded, read_image
from cannery.doctor.json_paths import at, put, remove, shown, strings
from cannery.messages.json_text import find_lone_surrogate
from cannery.repairs.aliases import alias_of
from cannery.wire.media import WEB_IMAGES
from cannery.wire.places import Path, path_text

_SURROGATE = re.compile("[\ud800-\udfff]")
_FERNET = re.compile(r"gAAAA[A-Za-z0-9_-]+=*")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_WORDS |= {list: "a list", dict: "an object"}

Named = Iterable[tuple[Path, Any]]
MB = 1 << 20


def has_lone_surrogate(raw: bytes) -> bool:
    """Whether the bytes of a body contain a lone surrogate."""
    return find_lone_surrogate(raw.decode("latin-1")) >= 0


def lone_surrogates(judged: Judged) -> Iterator[Broken]:
    """Text with a lone surrogate, which is invalid Unicode and cannot be sent as UTF-8."""
    for path, text in strings(judged.body):
        if _SURROGATE.search(text):
            yield path, "half of a surrogate pair, which is not valid Unicode text"


def replace_surrogates(judged: Judged, path: Path) -> str | None:
    """Replace each lone surrogate by U+FFFD."""
    held = at(judged.body, path)
    if isinstance(held, str):
        put(judged.body, path, _SURROGATE.sub("\ufffd", held))
    elif isinstance(held, dict):
        for key in list(held):
            if _SURROGATE.search(key):
                held[_SURROGATE.sub("\ufffd", key)] = held.pop(key)
    return "replaced half of a surrogate pair by U+FFFD"


def too_large(limit: int) -> Callable[[Judged], Iterator[Broken]]:
    """A body with more bytes than the provider allows."""

    def find(judged: Judged) -> Iterator[Broken]:
        if judged.size > limit:
            yield (), f"the request has {judged.size / MB:.1f} MB; {limit // MB} MB are allowed"

    return find


# --- types, ranges and required fields ----------------------------------------------------------


def types(kinds: Mapping[str, tuple[type, ...]]) -> Callable[[Judged], Iterator[Broken]]:
    """Settings of the wrong type; null counts as missing."""

    def find(judged: Judged) -> Iterator[Broken]:
        yield from wrong_types(judged.body, kinds, ())

    return find


def wrong_types(
    holder: Object, kinds: Mapping[str, tuple[type, ...]], path: Path
) -> Iterator[Broken]:
    """Fields of an object that have the wrong type."""
    for key, allowed in kinds.items():
        value = holder.get(key)
        if value is not None and not _is_one(value, allowed):
            words = " or ".join(_WORDS[kind] for kind in allowed)
            yield (*path, key), f"{key} must be {words}, not {shown(value)}"


def _is_one(value: Any, allowed: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in allowed
    if isinstance(value, int):
        return int in allowed or float in allowed
    if isinstance(value, float) and value.is_integer() and int in allowed:
        return True
    return isinstance(value, allowed)


def missing(
    holder: Object, required: Mapping[str, tuple[type, ...]], path: Path
) -> Iterator[Broken]:
    """Required fields that an object does not have, or has with the wrong type."""
    for key in required:
        if holder.get(key) is None:
            yield (*path, key), f"{key} is required"
    yield from wrong_types(holder, required, path)


def ranges(
    limits: Mapping[str, tuple[float, float]], path: Path = ()
) -> Callable[[Judged], Iterator[Broken]]:
    """Numbers outside their documented range."""

    def find(judged: Judged) -> Iterator[Broken]:
        holder = at(judged.body, path)
        for key, (low, high) in limits.items():
            value = holder.get(key) if isinstance(holder, dict) else None
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                continue
            if not low <= value <= high:
                yield (*path, key), f"{key} is {value}; it must lie between {low:g} and {high:g}"

    return find


def drop(judged: Judged, path: Path) -> str | None:
    """Remove the value that violates the rule."""
    if at(judged.body, path) is None:
        return None
    remove(judged.body, path)
    return f"removed {path_text(path)}"


# --- names and ids --------------------------------------------------------------------------------


def illegal_names(named: Named, pattern: re.Pattern[str], what: str = "name") -> Iterator[Broken]:
    """Names that do not match the provider's pattern."""
    for path, name in named:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            yield path, f"the {what} {shown(name)} does not match {pattern.pattern}"


def duplicate_names(named: Named) -> Iterator[Broken]:
    """Names that occur twice."""
    seen: set[Any] = set()
    for path, name in named:
        if isinstance(name, str) and name in seen:
            yield path, f"two tools have the name {shown(name)}"
        if isinstance(name, str):
            seen.add(name)


def legal_name(name: Any, pattern: str, length: int) -> str:
    """The legal alias for a name or an id, always the same."""
    return alias_of(name if isinstance(name, str) else str(name), pattern, length)


# --- media ----------------------------------------------------------------------------------------


def broken_picture(
    data: Any, declared: Any, path: Path, *, compares: bool = True, urlsafe: bool = False
) -> Iterator[tuple[str, Broken]]:
    """The errors of a base64 image, as code and path: its alphabet, its type, its bytes."""
    if decoded(data, urlsafe=urlsafe) is None or not data:
        yield "base64", (path, "the data are empty or not base64")
        return
    picture = read_image(data, urlsafe=urlsafe)
    if picture.media_type and compares and declared != picture.media_type:
        yield (
            "media-mismatch",
            (path, f"declared as {shown(declared)}, but the bytes are {picture.media_type}"),
        )


def size_words(picture: Picture) -> str:
    """The size of an image, as text."""
    return f"{picture.width}×{picture.height} pixels"


def is_image(media_type: Any) -> bool:
    """Whether a media type is one of the four image types of the web, which most providers accept."""
    return media_type in WEB_IMAGES


def is_fernet(text: Any) -> bool:
    """Whether a value is an encrypted payload in OpenAI's format."""
    return isinstance(text, str) and _FERNET.fullmatch(text) is not None


# --- schemas of tools -----------------------------------------------------------------------------

_UNIONS = ("oneOf", "allOf", "anyOf")


def schema_problems(schema: Any, path: Path, *, needs_type: bool) -> Iterator[Broken]:
    """The rules of OpenAI and Anthropic for the top of a tool's schema: it must be an object."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield path, f"a schema is an object, not {shown(schema)}"
        return
    kind = schema.get("type")
    if kind != "object" and (kind is not None or needs_type):
        yield (*path, "type"), f"the type of a tool's schema must be 'object', not {shown(kind)}"


def union_problems(schema: Any, path: Path) -> Iterator[Broken]:
    """Unions at the top of a tool's schema."""
    for key in _UNIONS:
        if isinstance(schema, dict) and key in schema:
            yield (*path, key), f"a tool's schema has no {key} at its top level"


def open_objects(schema: Any, path: Path) -> Iterator[Broken]:
    """Objects of a strict schema that are not closed."""
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    if is_object and schema.get("additionalProperties") is not False:
        yield path, "additionalProperties must be false in a strict schema"
    for key in ("properties", "$defs", "definitions"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            for name, each in inner.items():
                yield from open_objects(each, (*path, key, name))
    for key in ("anyOf", "oneOf", "allOf"):
        for index, each in enumerate(schema.get(key) or ()):
            yield from open_objects(each, (*path, key, index))
    yield from open_objects(schema.get("items"), (*path, "items"))


def close_object(judged: Judged, path: Path) -> str | None:
    """Close an object of a strict schema."""
    at(judged.body, path)["additionalProperties"] = False
    return "set additionalProperties to false"
