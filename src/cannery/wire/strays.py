"""Fields of messages that no reader knows, taken out on the shortest way and noted as lost.

Only a message that has such a field is looked at; what the general reader would make more of is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from cannery.wire.foreign import lost_field
from cannery.wire.losses import Notes
from cannery.wire.slices import encode_structs

_NULL = b"null"
# What says how something is to be kept.
_MARKS = frozenset(("cache_control", "prompt_cache_breakpoint"))
# What tells nothing where it is this.
_SILENT = {"annotations": b"[]", "is_error": b"false"}
# What says nothing where it is null, though the field is known.
_OPTIONAL = frozenset(("tool_calls",))
_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class Strays:
    """What a dialect knows of a message, by role, and of the blocks in it, by type.

    ``telling`` are other fields that tell more than themselves.
    """

    def __init__(
        self,
        messages: Mapping[str, tuple[str, ...]],
        telling: frozenset[str],
        blocks: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._messages = messages
        self._blocks = blocks
        self._telling = telling | _MARKS

    def read(self, messages: Raw, decode: Callable[[Any], Any], notes: Notes) -> list[Any]:
        """The messages; ValidationError if one is odd in another way."""
        found: list[Any] = []
        for index, message in enumerate(_decode_list(messages)):
            try:
                found.append(decode(message))
            except msgspec.ValidationError:
                found.append(decode(self._message(message, index, notes)))
        return found

    def _message(self, message: Raw, index: int, notes: Notes) -> bytes:
        fields = _decode_fields(message)
        role = _decode_text(fields.get("role", Raw(_NULL)))
        said: Notes = []
        kept = self._known(fields, self._messages.get(role, ()), index, "", said)
        content = kept.get("content")
        if self._blocks is not None and content is not None and bytes(content)[:1] == b"[":
            kept["content"] = Raw(self._content(content, index, said))
        notes += said
        return encode_structs(kept)

    def _content(self, content: Raw, index: int, said: Notes) -> bytes:
        blocks: list[Any] = []
        for place, block in enumerate(_decode_list(content)):
            fields = _decode_fields(block)
            kind = _decode_text(fields.get("type", Raw(_NULL)))
            known = (self._blocks or {}).get(kind, ())
            noted: Notes = []
            path = f".content[{place}]"
            blocks.append(self._known(fields, known, index, path, noted))
            if not place:
                # What the message says beside its blocks is said with the first of them, behind its own.
                noted += said
                said.clear()
            # The name on a result is that of its call, which says it already.
            names = (".name", f"{path}.name") if kind == "tool_result" else ()
            said += [note for note in noted if note[-1] not in names]
        return encode_structs(blocks)

    def _known(
        self, fields: dict[str, Raw], known: tuple[str, ...], index: int, path: str, notes: Notes
    ) -> dict[str, Raw]:
        """The fields that are known, the others being noted."""
        kept: dict[str, Raw] = {}
        for name, literal in fields.items():
            held = bytes(literal)
            if name in known:
                if held != _NULL or name not in _OPTIONAL:
                    kept[name] = literal
            elif held not in (_NULL, _SILENT.get(name)):
                if name in self._telling or not name.isidentifier():
                    raise msgspec.ValidationError
                lost = lost_field(f".{name}", _decode(held))
                if lost is not None:
                    notes.append((lost[0], index, lost[1], f"{path}.{name}"))
        return kept
