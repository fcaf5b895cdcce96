"""What a leaf is: one thing that somebody said, called, answered, showed or thought, with its path.

Kinds: `text`, `system`, `call`, `result`, `media`, `document`, `reasoning`, `refusal` are what a
translation must carry or report. `signature` (signed or encrypted reasoning payload), `hosted` (a
tool that the provider runs) and `opaque` (a block that no type knows) exist abroad only by luck, so
they nearly always have to be reported.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from .rules.findings import split_data_url

CARRIED = frozenset(
    {"text", "system", "call", "result", "media", "document", "reasoning", "refusal"}
)
REPORTED = frozenset({"signature", "hosted", "opaque"})
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[(\"(?:[^\"\\]|\\.)*\")\]")


@dataclass(frozen=True)
class Leaf:
    """One leaf; `decoded` is the text of media whose bytes are text."""

    kind: str
    value: Any
    path: str
    decoded: str | None = None


def steps(path: str) -> tuple[str, ...]:
    """The steps of a JSON path or JSON pointer, so that spellings of one place compare equal."""
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    if not path.startswith("$"):
        path = "$" + (path if path.startswith("[") else "." + path)
    found = (next(group for group in step if group) for step in _STEP.findall(path))
    return tuple(json.loads(step) if step[0] == '"' else step for step in found)


def is_named(leaf: Leaf, paths: list[str]) -> bool:
    """Whether one of the paths names the leaf: the place itself, a part of it, or what holds it.

    What holds it may be at most a message, item or content: the whole list is no name.
    """
    wanted = steps(leaf.path)
    for path in paths:
        given = steps(path)
        shared = min(len(given), len(wanted))
        is_specific = len(given) >= 2 or given in (("system",), ("systemInstruction",), wanted)
        if given and is_specific and given[:shared] == wanted[:shared]:
            return True
    return False


def arguments(text: Any) -> Any:
    """Call arguments as a JSON value: an object as it is, text parsed, other text kept."""
    if not isinstance(text, str):
        return {} if text is None else text
    if not text.strip():
        return {}
    try:
        return json.loads(text, parse_constant=_no_json)
    except ValueError:
        return text


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def call(name: Any, given: Any, path: str) -> Leaf:
    """A call leaf."""
    return Leaf("call", {"name": name, "arguments": arguments(given)}, path)


def inline(data: Any, path: str, mime_type: Any = None) -> Leaf:
    """A media leaf for base64 data of any alphabet, or for a data URL."""
    parsed = split_data_url(data) if isinstance(data, str) else None
    if parsed:
        mime_type, data = parsed
    payload = decode_any(data)
    if payload is None:
        return Leaf("media", f"undecodable:{data}", path)
    digest = hashlib.sha256(payload).hexdigest()
    is_text = isinstance(mime_type, str) and mime_type.startswith("text/")
    return Leaf("media", f"sha256:{digest}", path, _text_of(payload) if is_text else None)


def located(place: Any, path: str) -> Leaf:
    """A media leaf for a URL; a data URL is inline."""
    if isinstance(place, str) and place.startswith("data:"):
        return inline(place, path)
    return Leaf("media", f"url:{place}", path)


def filed(identifier: Any, path: str) -> Leaf:
    """A media leaf for a provider's file id."""
    return Leaf("media", f"file:{identifier}", path)


def decode_any(data: Any) -> bytes | None:
    """Base64 of either alphabet, padded or not, white space ignored."""
    if not isinstance(data, str):
        return None
    bare = re.sub(r"\s", "", data).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _text_of(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
