"""Canisters as self-contained JSON values: the lines of the storage format, with all content inline."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cannery.backends import Metadata
from cannery.messages import AnyCanister
from cannery.storage.encoding import Encoder
from cannery.storage.store import Store, open_store

_EVERYTHING_INLINE = 1 << 60
# The threshold for long text outside a content; a supervisor's text is always stored separately.
_REFERENCE = {"content_id", "size"}


@functools.cache
def _store() -> Store:
    return open_store("sqlite::memory:")


@functools.cache
def _encoder() -> Encoder:
    return Encoder(_store().codec("").cache, _EVERYTHING_INLINE)


def from_portable(line: dict[str, Any]) -> AnyCanister:
    """The canister of self-contained JSON values."""
    (canister,) = _store().codec("").decoder.decode([msgspec.json.encode(line)], hydrate=True)
    return canister


def portable(canister: AnyCanister) -> dict[str, Any]:
    """A canister as JSON values; hydrate it first."""
    encoded = _encoder().encode(canister)
    line: dict[str, Any] = msgspec.json.decode(encoded.line)
    contents = {f"sha256:{digest.hex()}": data for digest, data in encoded.contents.items()}
    if "residue_id" in line:
        line["residue"] = msgspec.json.decode(contents[line.pop("residue_id")] or b"null")
    return {name: _inlined(value, contents) for name, value in line.items() if name != "check"}


def _inlined(value: Any, contents: Mapping[str, bytes | None]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, contents) for item in value]
    if not isinstance(value, dict):
        return value
    data = contents.get(value.get("content_id", ""))
    if data is not None and value.keys() == _REFERENCE:
        return data.decode()
    if data is None or "type" not in value:
        return {name: _inlined(item, contents) for name, item in value.items()}
    rest = {name: item for name, item in value.items() if name not in ("content_id", "size")}
    spelling = contents.get(rest.pop("spelling", ""))
    if value["type"] in ("text", "refusal"):
        return {"type": rest.pop("type"), "text": data.decode(), **_inlined(rest, contents)}
    return {**_inlined(rest, contents), "base64": (spelling or base64.b64encode(data)).decode()}


def conversation_data(metadata: Metadata, canisters: Iterable[AnyCanister]) -> dict[str, Any]:
    """A conversation as plain values: its metadata and its canisters."""
    return {
        **msgspec.to_builtins(metadata),
        "canisters": [portable(canister) for canister in canisters],
    }
