"""Media in parts: inline data and files, read into contents with the patch of what their holder says beyond that."""

from __future__ import annotations

import re
from typing import Any

from cannery.dialects.gemini_generate.spelling import MISSING, Object, plain, spelled
from cannery.dialects.gemini_generate.taking import Steps, make_patch, text_at
from cannery.dialects.gemini_generate.writing import ACCOUNT
from cannery.messages.content import new_audio, new_file, new_image, new_video
from cannery.messages.payload import Base64, Location
from cannery.wire.bodies import is_named
from cannery.wire.media import contradiction

Media = tuple[Any, Object | None]
_MAKERS = {"image": new_image, "audio": new_audio, "video": new_video}
_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:[ \t]*;[^\r\n]*)?", re.ASCII)
_YOUTUBE = re.compile(r"https?://(?:www\.|m\.)?(?:youtube\.com|youtu\.be)/", re.IGNORECASE)
_EXTENSIONS = {
    **dict.fromkeys(("png", "jpg", "jpeg", "webp", "gif", "heic", "heif"), "image/"),
    **dict.fromkeys(("wav", "mp3", "aac", "flac", "ogg", "m4a"), "audio/"),
    **dict.fromkeys(("mp4", "mov", "mpeg", "webm", "avi", "wmv", "3gp"), "video/"),
}


def read_inline(blob: Object, path: Steps) -> Media | None:
    """Inline data; None if they are text that cannot be read."""
    data = text_at(plain(blob.get("data", MISSING)), (*path, "data"))
    payload = Base64(data)
    type_key = spelled(blob, "mimeType")
    declared = _declared(plain(blob.get(type_key)))
    seen = contradiction(declared.partition(";")[0].strip().lower(), payload)
    mime_type = declared or seen or "application/octet-stream"
    # What it is the bytes tell; what it was called is for the repairs to correct.
    kind = seen or mime_type
    if kind.startswith("text/") and not payload.is_readable:
        return None
    del blob["data"]
    return _media(kind, mime_type, payload, blob, type_key if declared else None)


def read_file(file: Object, path: Steps) -> Media | None:
    """A file by its address; None if that is blank."""
    key = spelled(file, "fileUri")
    uri = text_at(plain(file.get(key, MISSING)), (*path, key))
    if not is_named(uri):
        return None
    del file[key]
    type_key = spelled(file, "mimeType")
    mime_type = _declared(plain(file.get(type_key)))
    is_public = uri.lower().startswith(("http://", "https://")) and not uri.startswith(ACCOUNT)
    location = Location("url" if is_public else "file", uri)
    kind = mime_type or _guess(uri)
    held, patch = _media(kind, mime_type, location, file, type_key if mime_type else None)
    if key != "fileUri":
        renamed = {"fileUri": key} if patch is None else {"fileUri": key, **patch.get("r", {})}
        patch = {"r": renamed} if patch is None else {**patch, "r": renamed}
    return held, patch


def _declared(value: Any) -> str:
    """The MIME type of media; "" for what is none."""
    return value if type(value) is str and _MIME.fullmatch(value) else ""


def _family(mime_type: str) -> str:
    family = mime_type.partition("/")[0].lower()
    return family if family in ("image", "audio", "video") else "file"


def _guess(uri: str) -> str:
    """The family that a location without a type gives away."""
    if _YOUTUBE.match(uri):
        return "video/"
    return _EXTENSIONS.get(uri.partition("?")[0].rpartition(".")[2].lower(), "")


def _media(
    kind: str, mime_type: str, payload: Any, left: Object, type_key: str | None
) -> tuple[Any, Object | None]:
    """Media and the patch of their holder, of which ``type_key`` is the key of a type that was understood."""
    renamed: dict[str, str] = {}
    dropped: list[str] = []
    if type_key is not None:
        del left[type_key]
        if type_key != "mimeType":
            renamed["mimeType"] = type_key
    elif mime_type and "mimeType" not in left:
        dropped.append("mimeType")
    family = _family(kind)
    if family != "file":
        return _MAKERS[family](payload, mime_type), make_patch(left, dropped, renamed)
    key = spelled(left, "displayName")
    name = plain(left.get(key))
    if type(name) is str:
        del left[key]
        if key != "displayName":
            renamed["displayName"] = key
    else:
        name = None
    return new_file(payload, mime_type, name), make_patch(left, dropped, renamed)
