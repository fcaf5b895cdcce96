"""Moves media back to results from the user message that follows them.

The writer puts media into that message, after a line that names the call, because a tool message is text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from cannery.families.chat.writing import ATTACHED
from cannery.messages.canisters import AnyCanister
from cannery.messages.content import new_parts, new_text
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.bodies import Reader
from cannery.wire.markers import read_media_label
from cannery.wire.places import Path

SPEAKERS = ("system", "developer", "user")
_MEDIA_PARTS = ("image_url", "file", "input_audio")


class MediaOfResults(Reader):
    """A reader that finds such media among the messages that it reads."""

    canisters: list[AnyCanister]
    _listed: Sequence[Any]

    @abstractmethod
    def part(self, part: Any, path: Path) -> tuple[Any, Any]:
        """The content of one content part, and the patch of its spelling."""

    @abstractmethod
    def _role(self, role: Any, index: int) -> str:
        """The normalized role of a message."""

    def _attach(self, content: list[Any], position: Any) -> int:
        """Move labelled media back to their results; returns how many parts that took.

        Only what writing would reproduce exactly is moved: one message after all results of the turn, with their media
        in the order of the results.
        """
        if _labelled(content[0]) is None:
            return 0
        results = self._open_results()
        found: list[tuple[int, list[Any]]] = []
        taken, last = 0, -1
        while taken + 1 < len(content):
            call_id = _labelled(content[taken])
            index = -1 if call_id is None else results.get(call_id, -1)
            media = self._media_after(content, taken + 1) if index > last else []
            if not media:
                break
            found.append((index, media))
            taken, last = taken + 1 + len(media), index
        if taken == len(content) and self._has_result(position + 1):
            return 0
        for index, media in found:
            self._take_media(index, media)
        return taken

    def _has_result(self, position: int) -> bool:
        """Whether a message is one more result, after which the media would go."""
        message = self._listed[position] if position < len(self._listed) else None
        if type(message) is not dict or "role" not in message:
            return False
        role = self._role(message["role"], position)
        return role not in SPEAKERS and role != "assistant"

    def _open_results(self) -> dict[str, int]:
        """The results at the end of the messages so far, which media may belong to.

        There are none if an earlier message gave media to one of them: the two messages would become one.
        """
        found: dict[str, int] = {}
        for index in range(len(self.canisters) - 1, -1, -1):
            canister: Any = self.canisters[index]
            if canister.role is not Role.Result:
                break
            residue = canister.residue
            if residue is not None and residue.form == ATTACHED:
                return {}
            if type(canister.held) is str and (residue is None or _is_beside(residue)):
                found[canister.invocation_id] = index
        return found

    def _media_after(self, content: list[Any], start: int) -> list[Any]:
        """The media from a position on whose spelling is the usual one."""
        media: list[Any] = []
        for item in content[start:]:
            if type(item) is not dict or item.get("type") not in _MEDIA_PARTS:
                break
            copy = {key: {**held} if type(held) is dict else held for key, held in item.items()}
            held, patch = self.part(copy, ("content",))
            if patch is not None or held.kind == "opaque":
                break
            media.append(held)
        return media

    def _take_media(self, index: int, media: list[Any]) -> None:
        canister: Any = self.canisters[index]
        words = (new_text(canister.held),) if canister.held else ()
        held = new_parts((*words, *media))
        beside = None if canister.residue is None else canister.residue.envelope
        residue = Residue(self.dialect, None, beside, ATTACHED)
        fields = {"held": held, "residue": residue, "_memo": None}
        self.canisters[index] = msgspec.structs.replace(canister, **fields)


def _is_beside(residue: Residue) -> bool:
    """Whether a residue has only what stands beside the content of a result, such as its name."""
    around = residue.envelope
    is_alone = residue == Residue(residue.dialect, None, around)
    return is_alone and around is not None and '"content"' not in around


def _labelled(part: Any) -> str | None:
    """The call id of a part that labels the media after it, or None."""
    if type(part) is not dict or len(part) != 2 or part.get("type") != "text":
        return None
    text = part.get("text")
    return read_media_label(text) if type(text) is str else None
