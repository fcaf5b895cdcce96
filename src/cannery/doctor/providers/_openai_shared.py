"""Rules that OpenAI's two APIs share: names, tools, schemas, images, files, metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cannery.doctor.contract import Broken, Judged, Object
from cannery.doctor.images import decoded, read_image, split_data_url
from cannery.doctor.json_paths import at, put, shown, walk
from cannery.doctor.providers._fields import Fields
from cannery.doctor.providers._openai_models import model_of
from cannery.doctor.shared import broken_picture, is_image, legal_name
from cannery.wire.places import Path

PATTERN = r"[A-Za-z0-9_-]+"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
API = "https://platform.openai.com/docs/api-reference"
_MARKS = 4
# Types of files that the server was recorded to refuse, or that are not in its list.
_NO_FILES = ("audio/", "video/")
Found = Iterable[tuple[Path, Any]]


def top_fields(fields: Fields, known: frozenset[str]) -> Callable[[Judged], Iterator[Broken]]:
    """Top-level fields that the API does not have, for a model of OpenAI."""

    def find(judged: Judged) -> Iterator[Broken]:
        if model_of(judged.model):
            yield from fields(judged.body, known, ())

    return find


def image_problems(
    code: str, images: Callable[[Judged], Found]
) -> Callable[[Judged], Iterator[Broken]]:
    """The errors of one kind in the images of a body."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, url in images(judged):
            yield from (broken for found, broken in _image(url, path) if found == code)

    return find


def _image(url: Any, path: Path) -> Iterator[tuple[str, Broken]]:
    if not isinstance(url, str) or not url:
        yield "image-url", (path, "an image has neither a URL nor data")
    elif url[:5].lower() != "data:":
        if "://" not in url:
            yield "image-url", (path, f"{shown(url)} is neither a URL nor a data URL")
        elif not url.lower().startswith(("http://", "https://", "gs://")):
            yield "image-url", (path, f"the server cannot fetch {shown(url)}")
    else:
        parsed = split_data_url(url)
        if parsed is None:
            yield "image-url", (path, "not of the form data:<type>;base64,<data>")
            return
        media_type, data = parsed
        if not is_image(media_type) and media_type != "image/jpg":
            yield "media-type", (path, f"{shown(media_type)} is not JPEG, PNG, GIF or WebP")
            return
        broken = list(broken_picture(data, media_type, path, compares=False))
        if not broken and not is_image(read_image(data).media_type):
            yield "media-type", (path, "the bytes are not those of a JPEG, PNG, GIF or WebP image")
        yield from broken


def file_problems(part: Object, key: str, path: Path) -> Iterator[tuple[str, Broken]]:
    """The errors of a base64 file."""
    data = part.get(key)
    if data is None:
        return
    parsed = split_data_url(data)
    media_type, text = parsed or ("", data)
    if media_type.startswith(_NO_FILES):
        yield "media-type", ((*path, key), f"files of the type {shown(media_type)} are not taken")
    elif not text or decoded(text) is None:
        yield "base64", ((*path, key), "the data are empty or not base64")


def metadata_limits(judged: Judged) -> Iterator[Broken]:
    """At most 16 pairs, keys up to 64 and values up to 512 characters."""
    metadata = judged.body.get("metadata")
    if not isinstance(metadata, dict):
        return
    if len(metadata) > 16:
        yield ("metadata",), f"{len(metadata)} pairs of metadata; 16 are allowed"
    for key, value in metadata.items():
        if len(key) > 64 or not isinstance(value, str) or len(value) > 512:
            yield (
                ("metadata", key),
                "a key has at most 64 characters, a value is text of at most 512",
            )


def stream_options(judged: Judged) -> Iterator[Broken]:
    """``stream_options`` without a stream."""
    if judged.body.get("stream_options") is not None and not judged.body.get("stream"):
        yield ("stream_options",), "stream_options is only allowed with stream: true"


def breakpoints(judged: Judged) -> Iterator[Broken]:
    """More than four explicit cache marks."""
    marked = [
        path for path, held in walk(judged.body) if held.get("prompt_cache_breakpoint") is not None
    ]
    for path in marked[: max(0, len(marked) - _MARKS)]:
        yield (*path, "prompt_cache_breakpoint"), f"{len(marked)} cache marks; {_MARKS} are allowed"


def set_media_note(judged: Judged, path: Path, kind: str) -> str | None:
    """Replace a part that cannot be sent by a line of text."""
    part = at(judged.body, path)
    put(judged.body, path, {"type": kind, "text": f"[{part.get('type')} left out]"})
    return f"replaced the {part.get('type')} part by a line of text"


def rename(judged: Judged, path: Path) -> str | None:
    """Replace a name by a legal one."""
    old = at(judged.body, path)
    put(judged.body, path, legal_name(old, PATTERN, 64))
    return f"renamed {old!r} to {at(judged.body, path)}"
