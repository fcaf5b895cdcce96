"""Says which leaves of a source body are not to be found in a target body.

Strategy: both bodies are walked to leaves. Each source leaf, longest first, looks for a place in a
target leaf of a kind that may hold it, and uses that place up, so that one copy never vouches for
two. Text may lie inside of a longer text (merged parts, a marked envelope); results and arguments
also match as JSON values, bare or wrapped; base64 is compared as bytes. Reasoning is only found in
reasoning: answer text is the wrong place for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .leaf import CARRIED, REPORTED, Leaf, arguments, is_named, steps
from .leaf_walkers import WALKERS

__all__ = ["CARRIED", "REPORTED", "Leaf", "is_named", "leaves", "missing_leaves", "steps"]

_HOLDERS: dict[str, frozenset[str]] = {
    "text": frozenset({"text", "system", "result", "document"}),
    "system": frozenset({"system", "text"}),
    "result": frozenset({"result", "text"}),
    "document": frozenset({"document", "text", "result", "system"}),
    "reasoning": frozenset({"reasoning"}),
    "refusal": frozenset({"refusal", "text"}),
    "signature": frozenset({"signature"}),
    "media": frozenset({"document", "text", "result"}),
}
_LABELS = frozenset(
    {
        *("type", "id", "call_id", "tool_use_id", "status", "role", "caller", "execution"),
        *("language", "outcome", "toolType", "tool_type", "container_id", "environment"),
    }
)
# What hosted tools are called by their own provider.
_NAMES = frozenset(
    {"web_search", "web_fetch", "code_execution", "bash_code_execution", "PYTHON", "OUTCOME_OK"}
)


def leaves(dialect: str, body: dict[str, Any]) -> list[Leaf]:
    """Every leaf of a request body, in order."""
    return list(WALKERS[dialect](body))


def missing_leaves(
    source_dialect: str,
    source_body: dict[str, Any],
    target_dialect: str,
    target_body: dict[str, Any],
    kinds: frozenset[str] = CARRIED | REPORTED,
    lost: Sequence[str] = (),
) -> list[Leaf]:
    """The leaves of the source that the target does not hold, in the source's order.

    Those that are told to be ``lost`` at these paths look for a place last: another may say the same words.
    """
    wanted = [leaf for leaf in leaves(source_dialect, source_body) if leaf.kind in kinds]
    pool = _Pool(leaves(target_dialect, target_body), target_body)
    ordered = sorted(wanted, key=lambda leaf: (is_named(leaf, [*lost]), -_size(leaf)))
    missing = {id(leaf) for leaf in ordered if not pool.take(leaf)}
    return [leaf for leaf in wanted if id(leaf) in missing]


def _size(leaf: Leaf) -> int:
    return len(leaf.value) if isinstance(leaf.value, str) else len(json.dumps(leaf.value))


@dataclass
class _Said:
    """One text of the target, as the pieces of it that nothing has used up."""

    kind: str
    pieces: list[str]

    def use(self, text: str, *, whole: bool) -> bool:
        for index, piece in enumerate(self.pieces):
            if piece == text if whole else text in piece:
                self.pieces[index : index + 1] = piece.split(text, 1)
                return True
        return False

    def use_json(self, value: Any) -> bool:
        """Use up the JSON text of a value that stands inside of a longer text."""
        decoder = json.JSONDecoder()
        for index, piece in enumerate(self.pieces):
            for start, char in enumerate(piece):
                if char not in "{[":
                    continue
                try:
                    found, end = decoder.raw_decode(piece, start)
                except ValueError:
                    continue
                if found == value:
                    self.pieces[index : index + 1] = [piece[:start], piece[end:]]
                    return True
        return False

    def use_all(self, fits: Callable[[str], bool]) -> bool:
        found = any(fits(piece) for piece in self.pieces)
        if found:
            self.pieces = []
        return found


class _Pool:
    """The target's leaves, less what was already used up."""

    def __init__(self, target: list[Leaf], body: dict[str, Any]) -> None:
        self._said = [_Said(leaf.kind, [text]) for leaf in target for text in _texts(leaf)]
        self._values = [leaf for leaf in target if leaf.kind in ("call", "media", "result")]
        self._everything = list(_all_values(body))
        self._said += [_Said("document", [name]) for name in _file_names(self._everything)]

    def take(self, leaf: Leaf) -> bool:
        """Find a place for the leaf and use it up."""
        match leaf.kind:
            case "call":
                return self._take_value(leaf, _same_call)
            case "media":
                return self._take_value(leaf, _same_media) or self._take_file_as_text(leaf)
            case "hosted" | "opaque":
                return self._holds_payload(leaf.value)
            case _:
                return self._take_said(leaf)

    def _take_said(self, leaf: Leaf) -> bool:
        holders = _HOLDERS[leaf.kind]
        if not isinstance(leaf.value, str):
            return (
                any(said.use_json(leaf.value) for said in self._said if said.kind in holders)
                or self._use(holders, lambda text: leaf.value in _json_values(text))
                or self._take_value(leaf, _same_result)
            )
        text = _clean(leaf.value)
        return (
            any(said.use(text, whole=True) for said in self._said if said.kind in holders)
            or any(said.use(text, whole=False) for said in self._said if said.kind in holders)
            or self._take_value(leaf, _same_result)
            or self._take_value(leaf, _same_file)
        )

    def _use(self, holders: frozenset[str], fits: Callable[[str], bool]) -> bool:
        return any(said.use_all(fits) for said in self._said if said.kind in holders)

    def _take_value(self, leaf: Leaf, same: Callable[[Leaf, Leaf], bool]) -> bool:
        for index, candidate in enumerate(self._values):
            if same(leaf, candidate):
                del self._values[index]
                return True
        return False

    def _take_file_as_text(self, leaf: Leaf) -> bool:
        """Media whose bytes are text may have become text."""
        holders = _HOLDERS["media"]
        if self._use(holders, lambda text: _digest(text) == leaf.value):
            return True
        decoded = _clean(leaf.decoded or "")
        return bool(decoded) and any(
            said.use(decoded, whole=False) for said in self._said if said.kind in holders
        )

    def _holds_payload(self, value: Any) -> bool:
        """A block that is there as it was, or whose every word is there."""
        if value in self._everything:
            return True
        said = [text for text in _payload_texts(value) if text]
        strings = [item for item in self._everything if isinstance(item, str)]
        return bool(said) and all(any(_occurs(text, s) for s in strings) for text in said)


def _texts(leaf: Leaf) -> Iterator[str]:
    """The texts of a target leaf that source texts may be found in."""
    if leaf.kind == "result":
        yield from (_clean(text) for text in _all_values(leaf.value) if isinstance(text, str))
    elif leaf.kind not in ("call", "media") and isinstance(leaf.value, str):
        yield _clean(leaf.value)


def _file_names(values: list[Any]) -> Iterator[str]:
    """Where a document's title may go in dialects that only name files."""
    for holder in values:
        if isinstance(holder, dict):
            names = (holder.get(key) for key in ("filename", "displayName", "display_name"))
            yield from (_clean(name) for name in names if isinstance(name, str))


def _clean(text: str) -> str:
    """Text as it may travel: lone surrogates become U+FFFD."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def _occurs(text: str, string: str) -> bool:
    return text in string or json.dumps(text, ensure_ascii=False)[1:-1] in string


def _same_call(wanted: Leaf, found: Leaf) -> bool:
    if found.kind != "call" or not _same_name(found.value["name"], wanted.value["name"]):
        return False
    have, want = found.value["arguments"], wanted.value["arguments"]
    return bool(have == want) or _wraps(have, want) or _wraps(want, have)


def _same_name(found: Any, wanted: Any) -> bool:
    """The name of a function, or that name behind the name of the group that it is in."""
    return bool(found == wanted) or str(found).endswith(f"__{wanted}")


def _wraps(outer: Any, inner: Any) -> bool:
    """Whether an object holds what is no object itself, as a value or as its JSON text."""
    if not isinstance(outer, dict) or isinstance(inner, dict):
        return False
    return any(value == inner or arguments(value) == inner for value in _all_values(outer))


def _same_media(wanted: Leaf, found: Leaf) -> bool:
    return found.kind == "media" and bool(found.value == wanted.value)


def _same_file(wanted: Leaf, found: Leaf) -> bool:
    return found.kind == "media" and bool(found.value == _digest(_clean(wanted.value)))


def _same_result(wanted: Leaf, found: Leaf) -> bool:
    """A result that has become a JSON value, itself or wrapped, or the other way round."""
    if wanted.kind != "result" or found.kind != "result":
        return False
    want, have = arguments(wanted.value), arguments(found.value)
    return want in _all_values(have) or (have != {} and have in _all_values(want))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _json_values(text: str) -> Iterator[Any]:
    """Each JSON object or list that the text holds, with what lies inside of it."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        position += 1
        if text[position - 1] not in "{[":
            continue
        try:
            value, position = decoder.raw_decode(text, position - 1)
        except ValueError:
            continue
        yield from _all_values(value)


def _all_values(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _all_values(item)


def _payload_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _LABELS:
                yield from _payload_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _payload_texts(item)
    elif isinstance(value, str) and value not in _NAMES:
        yield value
