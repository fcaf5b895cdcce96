"""Contents of a Gemini body, whose keys have two spellings."""

from __future__ import annotations

import re
from typing import Any

from cannery.doctor.contract import Judged, Object
from cannery.doctor.json_paths import at, objects, put
from cannery.doctor.shared import legal_name
from cannery.wire.places import Path

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
PATTERN = r"[A-Za-z_][A-Za-z0-9_.:-]*"


def spelled(holder: Object, key: str) -> str:
    """The key in the spelling that an object uses; camelCase if it has neither."""
    snake = re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key)
    return snake if snake in holder and key not in holder else key


def camel(key: str) -> str:
    """The camelCase spelling of a key."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), key)


def get(holder: Any, key: str) -> Any:
    """The value of a key in either spelling."""
    return holder.get(spelled(holder, key)) if isinstance(holder, dict) else None


def contents_of(judged: Judged) -> list[tuple[Path, Object]]:
    held = judged.body.get("contents")
    if isinstance(held, dict):
        return [(("contents",), held)]
    return objects(held, ("contents",))


def rename(judged: Judged, path: Path) -> str | None:
    old = at(judged.body, path)
    put(judged.body, path, legal_name(old or "unknown", PATTERN, 128))
    return f"renamed {old!r} to {at(judged.body, path)}"
