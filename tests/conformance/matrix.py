"""The dialects under test, and the pairs of them."""

from __future__ import annotations

import json
from typing import Any

from cannery.dialects import dialect_names
from tests.oracles.corpus import DATA
from tests.oracles.json_values import same

_CASES = tuple(name for name in dialect_names() if (DATA / name).is_dir())
# What an API speaks has answers; a data set only has records.
DIALECTS = tuple(name for name in _CASES if (DATA / name / "responses").is_dir())
DATA_SETS = tuple(name for name in _CASES if name not in DIALECTS)
PAIRS = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]


def identify(value: Any) -> str:
    """A short test id for a case or name."""
    return value if isinstance(value, str) else f"{value.dialect}-{value.id}"


def assert_same_json(written: bytes, given: bytes) -> None:
    """Both bodies are the same JSON value, to the letter of their types."""
    ours, theirs = _scrub(json.loads(written)), _read(given)
    assert same(ours, theirs), f"wrote {written[:2000]!r}\ngiven {given[:2000]!r}"


def _read(body: bytes) -> Any:
    """A body as the wire means it: lone surrogates are replaced at ingress."""
    text = body.decode("utf-8", "surrogatepass")
    return _scrub(json.loads(text))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    return value
