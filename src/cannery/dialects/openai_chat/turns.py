"""Well-behaved conversations written straight to Chat messages.

One walk checks that calls are answered in order and builds the messages. The commonest turns (a text, one call with
its result) are written inside its loop; ``_Turns`` writes those of several canisters: text beside calls, several calls,
thoughts, cache marks, images. Anything else (this dialect's own residue, other content, ids or names that would have to
change) gives None, and the general writer takes over. Both say the same and report the same.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from orjson import Fragment

from cannery.dialects.openai_chat.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.content import (
    ImageContentClass,
    PartsContentClass,
    ReasoningContentClass,
    TextualContentClass,
)
from cannery.messages.payload import Base64, Location
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.chat_writing import CACHE_TTL
from cannery.wire.contract import Rules
from cannery.wire.foreign import lost_residue, report_residue
from cannery.wire.losses import Notes, Report
from cannery.wire.markers import flag_error, media_label
from cannery.wire.media import (
    WEB_IMAGES,
    data_url,
    is_fetchable,
    is_standard_base64,
    sound_base64,
    true_mime_type,
)
from cannery.wire.openai_shared import image_detail
from cannery.wire.residues import is_foreign_form
from cannery.wire.slices import UnusualError
from cannery.wire.walks import Known, Walked

_USER, _ASSISTANT, _SUPERVISOR = Role.User, Role.Assistant, Role.Supervisor
_INVOCATION, _RESULT = Role.Invocation, Role.Result
_MOST_MARKS = Rules().cache_marks
_LONGEST_ID, _LONGEST_NAME = 40, 64
_Object = dict[str, Any]


def _walk(
    canisters: tuple[Any, ...],
    index: int,
    notes: Notes,
    known: Known,
    *,
    is_home: bool,
) -> Walked | None:
    """The messages from a position on, where the last assistant turn starts, and how many stand before it."""
    written: list[Any] = []
    take = written.append
    count = len(canisters)
    last, before = index, 0
    turns = _Turns(canisters, written, notes, known, is_home=is_home)
    take_id, take_name = turns.identifiers.append, turns.names.add
    ahead = (*canisters, None, None, None)
    try:
        while index < count:
            canister, following = ahead[index], ahead[index + 1]
            role = canister.role
            held = canister.held
            residue = canister.residue
            if residue is not None and not is_home and is_foreign_form(residue, NAME):
                residue = None
            if role is _ASSISTANT:
                last, before = index, len(written)
                if held is absent:
                    # What agents do all day: one call without words, and its result.
                    result, then = ahead[index + 2], ahead[index + 3]
                    if (
                        result is not None
                        and following.role is _INVOCATION
                        and result.role is _RESULT
                        and (then is None or not then.joined)
                        and residue is following.residue is result.residue is None
                        and result._error is absent  # noqa: SLF001 - a property would cost a call
                        and result.invocation_id == following.identifier
                        and not following.is_freeform
                        and type(result.held) is str
                    ):
                        identifier, name = following.identifier, following.name
                        arguments, text = following.held, result.held
                        take_id(identifier)
                        take_name(name)
                        if len(arguments) < 2 and not is_home:
                            arguments = arguments.strip() or "{}"
                        function = {"name": name, "arguments": arguments}
                        call = {"id": identifier, "type": "function", "function": function}
                        take({"role": "assistant", "content": None, "tool_calls": (call,)})
                        take({"role": "tool", "tool_call_id": identifier, "content": text})
                        index += 3
                        continue
                elif (
                    type(held) is str
                    and residue is None
                    and (following is None or following.role is _USER)
                ):
                    take({"role": "assistant", "content": held})
                    index += 1
                    continue
                index = turns.assistant(index)
            elif (
                role is _USER
                and type(held) is str
                and residue is None
                and (following is None or not following.joined)
            ):
                take({"role": "user", "content": held})
                index += 1
            elif role is _USER or role is _SUPERVISOR:
                index = turns.spoken(index, role, [])
            elif role is _INVOCATION:
                last, before = index, len(written)
                index = turns.assistant(index)
            else:
                return None
        turns.check()
    except UnusualError:
        return None
    return Walked(written, last, before)


walk_home = partial(_walk, is_home=True)
walk_abroad = partial(_walk, is_home=False)


class _Turns:
    """Writes the turns of several canisters; what it cannot write raises UnusualError."""

    def __init__(
        self,
        canisters: tuple[Any, ...],
        written: list[Any],
        notes: Notes,
        known: Known,
        *,
        is_home: bool,
    ) -> None:
        self.canisters = canisters
        self.count = len(canisters)
        self.written = written
        self.notes = notes
        self.known = known
        self.is_home = is_home
        self.identifiers: list[str] = []
        self.names: set[str] = set()
        self.marks = 0

    # --- what the model says -------------------------------------------------------------------

    def assistant(self, index: int) -> int:
        """Write an assistant turn and the results of its calls; give the position behind them."""
        first = index
        parts: list[_Object] = []
        calls: list[_Object] = []
        while index < self.count:
            canister = self.canisters[index]
            role = canister.role
            if role is _INVOCATION:
                calls.append(self._call(canister, index))
            elif role is _ASSISTANT and (index == first or canister.joined):
                count = len(parts)
                self._add_spoken(canister, index, parts)
                if calls and len(parts) > count and not self.is_home:
                    self.notes.append(("ORDER_CHANGED", index, ""))
            else:
                break
            index += 1
        content: Any = parts
        if not parts:
            content = None if calls or self.is_home else ""
        elif len(parts) == 1 and len(parts[0]) == 2:
            content = parts[0]["text"]
        message = {"role": "assistant", "content": content}
        self.written.append(message)
        if not calls:
            return index
        message["tool_calls"] = calls
        return self._results(index, calls)

    def _call(self, call: Any, index: int) -> _Object:
        if call.is_freeform:
            raise UnusualError
        self.identifiers.append(call.identifier)
        self.names.add(call.name)
        if call.residue is not None:
            self._report(call, index)
            if call.residue.cache:
                self.notes.append(("CACHE_MARK_DROPPED", index, ""))
        arguments = call.held
        if not self.is_home and (not arguments or arguments.isspace()):
            arguments = "{}"
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.identifier, "type": "function", "function": function}

    def _add_spoken(self, canister: Any, index: int, parts: list[_Object]) -> None:
        held = canister.held
        if type(held) is str:
            parts.append(self._text(canister, held, index))
        elif held is absent:
            if canister.residue is not None:
                self._report(canister, index)
        elif type(held) is ReasoningContentClass and not self.is_home:
            if canister.residue is not None:
                self._report(canister, index)
            self.notes.append(("REASONING_DROPPED", index, ""))
            if held.signature is not None or held.encrypted is not None:
                self.notes.append(("SIGNATURE_DROPPED", index, ""))
        else:
            raise UnusualError

    # --- what it gets back ---------------------------------------------------------------------

    def _results(self, index: int, calls: list[_Object]) -> int:
        """Write the results of calls, in call order, then their media with what the user says beside them."""
        media: list[_Object] = []
        if index + len(calls) > self.count:
            raise UnusualError
        for call in calls:
            result = self.canisters[index]
            identifier = call["id"]
            if result.role is not _RESULT or result.invocation_id != identifier:
                raise UnusualError
            content = self._result(result, index, media)
            self.written.append({"role": "tool", "tool_call_id": identifier, "content": content})
            index += 1
        following = self.canisters[index] if index < self.count else None
        if following is not None and following.role is _USER and following.joined:
            return self.spoken(index, _USER, media)
        if media:
            self.written.append({"role": "user", "content": media})
        return index

    def _result(self, result: Any, index: int, media: list[_Object]) -> Any:
        residue = result.residue
        if residue is None:
            return self._answer(result, index, media)
        self._report(result, index)
        before = len(media)
        content = self._answer(result, index, media)
        if residue.cache is None:
            return content
        if not content or len(media) > before:
            self.notes.append(("CACHE_MARK_DROPPED", index, ""))
            return content
        parts = [{"type": "text", "text": content}] if type(content) is str else content
        _mark(parts[-1], residue)
        return parts

    def _answer(self, result: Any, index: int, media: list[_Object]) -> Any:
        held, error = result.held, result._error  # noqa: SLF001 - tells a flag from a reason
        if type(held) is str and error is absent:
            return held
        if self.is_home:
            raise UnusualError
        contents = held.parts if type(held) is PartsContentClass else (held,)
        images = [content for content in contents if type(content) is ImageContentClass]
        texts = [_said(content) for content in contents if type(content) is not ImageContentClass]
        if error is not absent:
            self.notes.append(("ERROR_FLAG_TO_TEXT", index, ""))
            told = error if type(error) is str else ""
            words = texts if any(texts) or not told else [told]
            texts = [flag_error(words[0] if words else ""), *words[1:]]
        if images:
            shown = [self._image(image) for image in images]
            self.notes.append(("MEDIA_MOVED", index, ""))
            media.append({"type": "text", "text": media_label(result.invocation_id)})
            media.extend(shown)
        if len(texts) > 1 and not images:
            return [{"type": "text", "text": text} for text in texts]
        return "".join(texts)

    # --- what others say -----------------------------------------------------------------------

    def spoken(self, index: int, role: Role, media: list[_Object]) -> int:
        """Write a user or system message, behind media of results; give the position behind it."""
        start = index
        parts: list[_Object] = []
        while index < self.count:
            canister = self.canisters[index]
            if canister.role is not role or (index > start and not canister.joined):
                break
            held = canister.held
            if type(held) is str:
                parts.append(self._text(canister, held, index))
            elif type(held) is ImageContentClass and role is _USER:
                part = self._image(held)
                if canister.residue is not None:
                    if image_detail(canister.residue) is not None:
                        raise UnusualError
                    self._report(canister, index)
                    _mark(part, canister.residue)
                parts.append(part)
            else:
                raise UnusualError
            index += 1
        is_plain = len(parts) == 1 and len(parts[0]) == 2 and "text" in parts[0]
        content: Any = parts[0]["text"] if is_plain else parts
        if media:
            content = [*media, *(parts if content else ())]
        self.written.append({"role": _role_name(self.canisters[start]), "content": content})
        return index

    def _text(self, canister: Any, held: str, index: int) -> _Object:
        part: _Object = {"type": "text", "text": held}
        if canister.residue is not None:
            self._report(canister, index)
            _mark(part, canister.residue)
        return part

    def _image(self, image: ImageContentClass) -> _Object:
        payload, mime_type = image.payload, image.mime_type
        if isinstance(payload, Location):
            if payload.kind == "file" or not (self.is_home or is_fetchable(payload)):
                raise UnusualError
            return {"type": "image_url", "image_url": {"url": payload.value}}
        if self.is_home:
            return {"type": "image_url", "image_url": {"url": _raw_url(image) or data_url(image)}}
        if mime_type not in WEB_IMAGES or true_mime_type(image) != mime_type:
            raise UnusualError
        url: Any = _standard_url(image)
        if url is None:
            text = sound_base64(payload)
            if text is None:
                raise UnusualError
            url = f"data:{mime_type};base64,{text}"
        return {"type": "image_url", "image_url": {"url": url}}

    # --- residue -------------------------------------------------------------------------------

    def _report(self, canister: Any, index: int) -> None:
        """Note what the residue of another dialect holds and Chat cannot say."""
        residue = canister.residue
        if self.is_home or residue.dialect == NAME:
            raise UnusualError
        if residue.cache is not None:
            self.marks += 1
        if residue.envelope is not None:
            report_residue(canister, Noting(self.notes), index)
        elif residue.part is not None:
            is_result = canister.role is _RESULT
            lost = lost_of(residue.part, is_marked=residue.cache is not None, is_result=is_result)
            self.notes += [(code, index, detail, within) for code, detail, within in lost]

    # --- in the end ----------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse ids and names that would have to change, and more cache marks than there may be."""
        known = self.known
        if not known.ids.isdisjoint(self.identifiers) or not are_legal(
            self.identifiers, self.names
        ):
            raise UnusualError
        if self.marks and self.marks + known.marks > _MOST_MARKS:
            raise UnusualError


def are_legal(identifiers: list[str], names: set[str]) -> bool:
    """Whether Chat takes these ids and names, and no id comes twice."""
    if not identifiers:
        return True
    return (
        len(set(identifiers)) == len(identifiers)
        and "" not in identifiers
        and max(map(len, identifiers)) <= _LONGEST_ID
        and "".join(identifiers).isprintable()
        and all(map(is_legal_name, names))
    )


def is_legal_name(name: str) -> bool:
    """Whether Chat takes this as the name of a function."""
    return (
        len(name) <= _LONGEST_NAME
        and name.isascii()
        and name.replace("-", "a").replace("_", "a").isalnum()
    )


class Noting(Report):
    """A report that keeps losses as notes."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes

    def lose(self, code: str, place: Any, detail: str = "", within: str = "") -> None:
        """Note a loss."""
        self.notes.append((code, place, detail, within))


@lru_cache(maxsize=64)
def lost_of(
    part: str, *, is_marked: bool, is_result: bool = False
) -> tuple[tuple[str, str, str], ...]:
    """What of a patch is lost: nothing of a mark for a cache that is said otherwise."""
    return lost_residue(
        Residue("", part=part, cache="short" if is_marked else None), is_result=is_result
    )


def _mark(part: _Object, residue: Residue) -> None:
    if residue.cache:
        part["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": CACHE_TTL[residue.cache]}


def _role_name(canister: Any) -> str:
    if canister.role is _USER:
        return "user"
    return "developer" if canister.rank == "developer" else "system"


def _said(content: Any) -> str:
    """The text of a part of a result."""
    if type(content) is str:
        return content
    if type(content) is TextualContentClass and content.is_hydrated:
        return content.text
    raise UnusualError


def _raw_url(image: ImageContentClass) -> Fragment | None:
    """The data URL of base64 text that is known to need no escape; None for any other."""
    payload = image.payload
    raw = payload.raw if type(payload) is Base64 else None
    if raw is None or not image.mime_type.replace("/", "").replace("+", "").isalnum():
        return None
    return Fragment(b'"data:%b;base64,%b"' % (image.mime_type.encode(), raw))


def _standard_url(image: ImageContentClass) -> Fragment | None:
    """The same if the text is in the standard alphabet, too."""
    raw = image.payload.raw if type(image.payload) is Base64 else None
    if not raw or not is_standard_base64(raw.decode("utf-8", "replace")):
        return None
    return _raw_url(image)
