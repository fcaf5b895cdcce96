"""Reading messages of the Chat Completions shape, which several dialects share.

A message becomes one canister for each part, joined; what the model has no place for is remembered as the difference to
what writing would give. Roles are normalized first, so a client's odd spelling never comes back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.families.chat.writing import ATTACHED, AUDIO_FORMATS, ChatWriter
from cannery.families.openai.shared import cache_mark
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
)
from cannery.messages.content import (
    Origin,
    new_audio,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_refusal,
    new_text,
)
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.bodies import Object, is_named
from cannery.wire.canister_reading import CanisterReader, join
from cannery.wire.contract import Piece
from cannery.wire.delta import same
from cannery.wire.losses import Report
from cannery.wire.markers import read_error_flag, read_media_label
from cannery.wire.media import split_data_url
from cannery.wire.residues import patch_text, remember
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["openai"]
_AUDIO_TYPES = {sound: mime_type for mime_type, sound in AUDIO_FORMATS.items()}
_SPEAKERS = ("system", "developer", "user")
_REASONING_KEYS = ("reasoning_content", "reasoning")


class ChatReader(CanisterReader):
    """Reads the messages of one body, in order."""

    def __init__(self, dialect: str, model: Any = None) -> None:
        super().__init__(dialect)
        self.model = model if type(model) is str else None
        self.writer = ChatWriter(dialect, Report(), at_home=True)
        # In an answer: what the ids begin with that are made for calls without one.
        self.call_stem = ""
        self._legacy: dict[str, list[str]] = {}
        self._legacy_count = 0

    def messages(self, body: Object) -> None:
        """All messages of a body."""
        listed = self.list(self.field(body, "messages", ""), "messages")
        for index, item in enumerate(listed):
            path = f"messages[{index}]"
            message = self.object(item, path)
            role = self.role(message, index)
            if role != message.get("role"):
                message = {**message, "role": role}
            if role in _SPEAKERS:
                self._spoken(message, role, path, listed, index)
            elif role == "assistant":
                self.assistant(message, path)
            else:
                self._result(message, role, path)

    def role(self, message: Object, index: int) -> str:
        """The role of a message, normalized."""
        role = self.field(message, "role", f"messages[{index}]")
        return read_role(self.dialect, role, _ROLES, f"messages.{index}.role")

    # --- system, developer, user ---------------------------------------------------------------

    def _spoken(
        self, message: Object, role: str, path: str, listed: list[Any], position: int
    ) -> None:
        start = len(self.canisters)
        content = message.get("content", absent)
        if role == "user" and type(content) is list and message.keys() == {"role", "content"}:
            taken = self._attach(content, listed, position)
            if taken and taken == len(content):
                return
            if taken:
                self._parts(content, role, f"{path}.content", taken)
                for canister in self.canisters[start:]:
                    join(canister)
                remember(self.canisters[start], dialect=self.dialect, form="list")
                return
        form = self._parts(content, role, f"{path}.content")
        pieces = [Piece(canister, None) for canister in self.canisters[start:]]
        head = self.canisters[start]
        remember(head, dialect=self.dialect, form=form)
        written = self.writer.spoken(pieces, role)
        remember(head, dialect=self.dialect, envelope=_envelope(written, message))

    def _attach(self, content: list[Any], listed: list[Any], position: int) -> int:
        """Give labelled media back to the results they belong to; how many parts that took.

        Only what writing would give again to the letter is taken: one message behind all results of the turn has their
        media, in the order of the results.
        """
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
        if taken == len(content) and self._has_result(listed, position + 1):
            return 0
        for index, media in found:
            self._take_media(index, media)
        return taken

    def _has_result(self, listed: list[Any], position: int) -> bool:
        """Whether a message is one more result, behind which the media would go."""
        message = listed[position] if position < len(listed) else None
        if type(message) is not dict or "role" not in message:
            return False
        role = self.role(message, position)
        return role not in _SPEAKERS and role != "assistant"

    def _open_results(self) -> dict[str, int]:
        """The results at the end of what was read so far, which media may belong to.

        There are none if a message before gave media to one of them: the two messages would become one.
        """
        found: dict[str, int] = {}
        for index in range(len(self.canisters) - 1, -1, -1):
            canister: Any = self.canisters[index]
            if canister.role is not Role.Result:
                break
            if canister.residue is None and type(canister.held) is str:
                found[canister.invocation_id] = index
            elif canister.residue is not None and canister.residue.form == ATTACHED:
                return {}
        return found

    def _media_after(self, content: list[Any], start: int) -> list[Any]:
        media: list[Any] = []
        for item in content[start:]:
            if type(item) is not dict or item.get("type") not in (
                "image_url",
                "file",
                "input_audio",
            ):
                break
            held = self.content(item, "content")
            if not same(self.writer.content_part(held, None), item):
                break
            media.append(held)
        return media

    def _take_media(self, index: int, media: list[Any]) -> None:
        canister: Any = self.canisters[index]
        words = (new_text(canister.held),) if canister.held else ()
        held = new_parts((*words, *media))
        residue = Residue(self.dialect, form=ATTACHED)
        fields = {"held": held, "residue": residue, "_memo": None}
        self.canisters[index] = msgspec.structs.replace(canister, **fields)

    def _parts(self, content: Any, role: str, path: str, start: int = 0) -> str | None:
        """Add a canister for each part; give the form of the content where it is not the usual one."""
        if type(content) is str:
            self.add(self.said_by(role, content), path)
            return None
        if type(content) is not list:
            if content is not None and content is not absent:
                self.fail(path, "expected a string or a list of parts")
            self.add(self.said_by(role, ""), path)
            return "null" if content is None else "absent"
        for index, item in enumerate(content[start:], start):
            place = f"{path}[{index}]"
            part = self.object(item, place)
            canister = self.said_by(role, self.content(part, place), joined=index > 0)
            self.add(canister, place)
            self.remember_part(canister, part)
        if not content:
            self.add(self.said_by(role, ""), path)
            return "empty"
        return "list" if len(content) == 1 and content[0].get("type") == "text" else None

    def remember_part(self, canister: AnyCanister, part: Object) -> None:
        """Keep what the usual form of a part would not say."""
        ours = self.writer.content_part(canister.held, None)
        cache = cache_mark(part)
        remember(canister, dialect=self.dialect, part=patch_text(ours, part), cache=cache)

    def content(self, part: Object, path: str) -> Any:
        """What one content part says."""
        kind = part.get("type")
        match kind:
            case "text":
                return self.text_field(part, "text", path)
            case "refusal":
                return new_refusal(self.text_field(part, "refusal", path))
            case "image_url":
                return self._image(part, path)
            case "input_audio":
                sound = self.object(self.field(part, "input_audio", path), f"{path}.input_audio")
                form = sound.get("format")
                data = self.text_field(sound, "data", f"{path}.input_audio")
                return new_audio(Base64(data), _AUDIO_TYPES.get(str(form), f"audio/{form}"))
            case "file":
                return self._file(part, path)
            case _:
                return self.opaque(part, kind, path)

    def opaque(self, part: Object, kind: Any, path: str) -> Any:
        """A block that nobody here knows, kept to the letter."""
        if type(kind) is not str:
            self.fail(f"{path}.type", "expected a string")
        return new_opaque(self.dialect, kind, write_json(part))

    def _image(self, part: Object, path: str) -> Any:
        image = part.get("image_url")
        url = image.get("url") if type(image) is dict else image
        location = self.text(url, f"{path}.image_url.url")
        inline = split_data_url(location)
        if inline is None:
            return (
                new_image(Location("url", location), "")
                if is_named(location)
                else self.opaque(part, "image_url", path)
            )
        mime_type, payload = inline
        return new_image(payload, mime_type)

    def _file(self, part: Object, path: str) -> Any:
        file = self.object(self.field(part, "file", path), f"{path}.file")
        name = file.get("filename") if type(file.get("filename")) is str else None
        data, identifier = file.get("file_data"), file.get("file_id")
        if type(data) is str:
            inline = split_data_url(data)
            mime_type, payload = inline or ("application/pdf", Base64(data))
            return new_file(payload, mime_type, name)
        if is_named(identifier):
            return new_file(Location("file", identifier), "", name)
        return self.opaque(part, "file", path)

    # --- assistant -----------------------------------------------------------------------------

    def assistant(self, message: Object, path: str) -> None:
        """An assistant message: what was said, then what was called."""
        start = len(self.canisters)
        self._reasoning(message, path)
        form = self._assistant_content(message, path, start)
        self._fields(message, path)
        self._calls(message, path, start)
        if len(self.canisters) == start:
            self.add(new_assistant(absent, self.when), path)
        for canister in self.canisters[start + 1 :]:
            if not canister.joined:
                join(canister)
        head = self.canisters[start]
        own = head.residue.form if head.residue is not None else None
        if own is not None and form is not None:
            # The head's own form is taken: an empty head carries the form of the message.
            head = new_assistant(absent, self.when)
            join(self.canisters[start])
            self.canisters.insert(start, head)
            self.paths.insert(start, path)
        remember(head, dialect=self.dialect, form=form)
        pieces = [Piece(canister, None) for canister in self.canisters[start:]]
        written = self.writer.assistant(pieces)
        remember(head, dialect=self.dialect, envelope=_envelope(written, message))

    def _reasoning(self, message: Object, path: str) -> None:
        for key in _REASONING_KEYS:
            thought = message.get(key)
            if type(thought) is str and thought:
                origin = Origin(self.dialect, self.model)
                canister = new_assistant(
                    new_reasoning((thought,), (), None, None, origin), self.when
                )
                self.add(canister, f"{path}.{key}")
                remember(canister, dialect=self.dialect, form=key)

    def _assistant_content(self, message: Object, path: str, start: int) -> str | None:
        content = message.get("content", absent)
        calls = message.get("tool_calls") or message.get("function_call") or message.get("refusal")
        if content is None:
            return None
        if content is absent:
            return "absent"
        if content == "" and (calls or len(self.canisters) > start):
            return "string"
        before = len(self.canisters)
        form = self._parts(content, "assistant", f"{path}.content")
        if form == "empty":
            del self.canisters[before:], self.paths[before:]
        return form

    def _fields(self, message: Object, path: str) -> None:
        refusal, audio = message.get("refusal"), message.get("audio")
        if type(refusal) is str:
            canister = new_assistant(new_refusal(refusal), self.when)
            self.add(canister, f"{path}.refusal")
            remember(canister, dialect=self.dialect, form="refusal")
        if type(audio) is dict and is_named(audio.get("id")):
            canister = new_assistant(new_audio(Location("file", audio["id"]), ""), self.when)
            self.add(canister, f"{path}.audio")
            part = patch_text({"id": audio["id"]}, audio)
            remember(canister, dialect=self.dialect, form="audio", part=part)

    def _calls(self, message: Object, path: str, start: int) -> None:
        calls = message.get("tool_calls")
        if calls is not None:
            for index, item in enumerate(self.list(calls, f"{path}.tool_calls")):
                place = f"{path}.tool_calls[{index}]"
                if len(self.canisters) == start:
                    self.add(new_assistant(absent, self.when), path)
                self._call(self.object(item, place), place, index)
        legacy = message.get("function_call")
        if type(legacy) is dict:
            if len(self.canisters) == start:
                self.add(new_assistant(absent, self.when), path)
            self._legacy_call(legacy, f"{path}.function_call")

    def _call(self, call: Object, path: str, index: int) -> None:
        kind = call.get("type", "function")
        inner = call.get(kind) if type(kind) is str else None
        if kind not in ("function", "custom") or type(inner) is not dict:
            canister = new_assistant(self.opaque(call, kind, path), self.when)
            self.add(canister, path)
            remember(canister, dialect=self.dialect, form="tool_calls")
            return
        name = self.text_field(inner, "name", f"{path}.{kind}")
        key = "input" if kind == "custom" else "arguments"
        arguments = argument_text(inner.get(key, ""))
        identifier = call.get("id")
        if self.call_stem and not identifier:
            identifier = f"{self.call_stem}{index}"
        elif type(identifier) is not str:
            identifier = f"call_{len(self.canisters)}"
        own = (identifier, name, kind == "custom")
        canister = new_invocation(arguments, self.when, True, None, None, *own)
        self.add(canister, path)
        part = patch_text(self.writer.call(Piece(canister, None)), call)
        remember(canister, dialect=self.dialect, part=part)

    def _legacy_call(self, function: Object, path: str) -> None:
        name = self.text_field(function, "name", path)
        identifier = f"function_call_{self._legacy_count}"
        self._legacy_count += 1
        self._legacy.setdefault(name, []).append(identifier)
        arguments = argument_text(function.get("arguments", ""))
        own = (identifier, name, False)
        canister = new_invocation(arguments, self.when, True, None, None, *own)
        self.add(canister, path)
        part = patch_text(self.writer.call(Piece(canister, None))["function"], function)
        remember(canister, dialect=self.dialect, form="function_call", part=part)

    # --- tool, function ------------------------------------------------------------------------

    def _result(self, message: Object, role: str, path: str) -> None:
        content = message.get("content", absent)
        form: str | None = None
        held: Any
        if type(content) is str:
            held = content
        elif type(content) is list:
            held, form = self._result_parts(content, f"{path}.content")
        elif content is None or content is absent:
            held, form = "", ("absent" if content is absent else None)
        else:
            self.fail(f"{path}.content", "expected a string or a list of parts")
        error: Any = absent
        failed = read_error_flag(held) if type(held) is str else None
        if failed is not None:
            held, error = failed, True
        own = (self._answered(message, role, path), error)
        canister = new_result(held, self.when, False, None, None, *own)
        self.add(canister, path)
        marks = [*filter(None, map(cache_mark, content))] if type(content) is list else []
        remember(canister, dialect=self.dialect, form=form, cache=marks[-1] if marks else None)
        written, _ = self.writer.result(Piece(canister, None))
        remember(canister, dialect=self.dialect, envelope=patch_text(written, message))

    def _result_parts(self, content: list[Any], path: str) -> tuple[Any, str | None]:
        parts = [
            self.content(self.object(item, f"{path}[{index}]"), f"{path}[{index}]")
            for index, item in enumerate(content)
        ]
        if not parts:
            return "", "list"
        if len(parts) == 1 and type(parts[0]) is str:
            return parts[0], "list"
        return new_parts(tuple(_wrapped(part) for part in parts)), None

    def _answered(self, message: Object, role: str, path: str) -> str:
        if role == "tool":
            identifier = message.get("tool_call_id")
            if identifier is None:
                self.fail(f"{path}.tool_call_id", "is required")
            return self.text(identifier, f"{path}.tool_call_id")
        name = self.text_field(message, "name", path)
        waiting = self._legacy.get(name)
        return waiting.pop(0) if waiting else f"function_call_{name}"


def _envelope(written: Object, message: Object) -> str | None:
    """The patch of a message; its parts remember themselves, so they are compared and normally the same."""
    return patch_text(written, message)


def _labelled(part: Any) -> str | None:
    """The call id of a part that says to which result the media behind it belong, or None."""
    if type(part) is not dict or len(part) != 2 or part.get("type") != "text":
        return None
    text = part.get("text")
    return read_media_label(text) if type(text) is str else None


def argument_text(value: Any) -> str:
    """The text of a call's arguments, however they are spelled."""
    if value is None:
        return ""
    return value if type(value) is str else write_json(value)


def _wrapped(held: Any) -> Any:
    return new_text(held) if type(held) is str else held
