"""Reads messages of the Chat Completions shape.

A message becomes one canister per part, joined. The reader takes the keys that it understands out of each object; the
rest is the residue. Unusual spellings of known keys are kept as the form of a message or as a small patch. Roles are
normalized first, so a client's unusual spelling is not restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from cannery.families.chat.contents import AUDIO_FORMATS
from cannery.families.chat.reasoning_details import DETAILS, read_details
from cannery.families.chat.result_media import SPEAKERS, MediaOfResults
from cannery.families.chat.result_pairing import WaitingCalls
from cannery.families.openai.shared import cache_mark
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
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
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.bodies import Object, decoded, is_named
from cannery.wire.markers import FLAG, flag_error, read_error_flag
from cannery.wire.media import data_url_patch, read_url, split_data_url
from cannery.wire.places import Path, path_text
from cannery.wire.residues import nested, set_again
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["openai"]
_AUDIO_TYPES = {sound: mime_type for mime_type, sound in AUDIO_FORMATS.items()}
_REASONING_KEYS = ("reasoning_content", "reasoning")
# Text fields of an assistant message beside its content.
_THOUGHTS = frozenset((*_REASONING_KEYS, DETAILS))
_BESIDE = frozenset((*_THOUGHTS, *("refusal", "audio", "tool_calls", "function_call")))
# The types of calls that have a name.
_CALLED = frozenset({"function", "custom"})
# The content of a part, and the patch that restores its exact spelling.
Held = tuple[Any, Object | None]


class ChatReader(MediaOfResults):
    """Reads the messages of one body, in order; ``places`` takes the path of each canister."""

    # Whether a result must name its call; otherwise one without an id answers the first waiting call.
    needs_call_ids: ClassVar[bool] = True
    # The text fields of an assistant message beside its content.
    beside: ClassVar[frozenset[str]] = frozenset({"refusal", "audio"})
    # In a response: the prefix of generated call ids.
    call_stem = ""
    _legacy_count = 0
    # The ids of older calls that wait for a result, by name.
    _legacy: dict[str, list[str]] | None = None
    _waiting: WaitingCalls
    _listed: Sequence[Any] = ()

    def __init__(self, dialect: str, places: list[Path], model: Any = None) -> None:
        self.dialect = dialect
        self.model = model if type(model) is str else None
        self.canisters: list[AnyCanister] = []
        self.places = places
        self.when = now()
        if not self.needs_call_ids:
            self._waiting = WaitingCalls()

    def messages(self, listed: Any) -> None:
        """Read all messages of a body."""
        if type(listed) is not list:
            self.list(listed, "messages")
        self._listed = listed
        readers = self.readers
        for index, message in enumerate(listed):
            if type(message) is not dict:
                self.object(message, f"messages[{index}]")
            role = message.pop("role", absent)
            read = readers.get(role) if type(role) is str else None
            if read is None:
                role = self._role(role, index)
                read = readers[role]
            read(self, message, role, ("messages", index))

    def _role(self, role: Any, index: int) -> str:
        """The role of a message."""
        if role is absent:
            self.fail(f"messages[{index}].role", "is required")
        return read_role(self.dialect, role, _ROLES, f"messages.{index}.role")

    def _add(self, canister: AnyCanister, path: Path) -> None:
        self.canisters.append(canister)
        self.places.append(path)

    def _kept(
        self,
        part: Object | None,
        envelope: Object | None = None,
        form: str | None = None,
        cache: str | None = None,
    ) -> Residue | None:
        """The residue of one canister; None if there is nothing to keep."""
        if part is None and envelope is None and form is None and cache is None:
            return None
        return Residue(
            self.dialect,
            None if part is None else write_json(part),
            None if envelope is None else write_json(envelope),
            form,
            None,
            cache,
        )

    # --- system, developer, user ---------------------------------------------------------------

    def _spoken(self, message: Object, role: str, path: Path) -> None:
        content = message.pop("content", absent)
        if message:
            _open(message)
        if type(content) is str:
            residue = self._kept(None, {"s": message}) if message else None
            if role == "user":
                self.canisters.append(new_user(content, self.when, False, residue))
            else:
                supervisor = new_supervisor(content, self.when, False, residue, None, role)
                self.canisters.append(supervisor)
            self.places.append(path + ("content",))
        elif type(content) is list and content:
            taken = 0
            if role == "user" and not message:
                taken = self._attach(content, path[1])
                if taken == len(content):
                    return
            form = "list" if taken or _is_one_text(content) else None
            envelope = set_again(message)
            self._parts(content, role, path + ("content",), form, envelope, taken)
        else:
            form = self._no_content(content, path)
            place = path if content is absent else path + ("content",)
            self._add(self._said(role, "", self._kept(None, set_again(message), form)), place)

    def _no_content(self, content: Any, path: Path) -> str:
        """The form of a message without content."""
        if content is absent:
            return "absent"
        if content is None:
            return "null"
        if content != []:
            self.fail(f"{path_text(path)}.content", "expected a string or a list of parts")
        return "empty"

    def _said(
        self, role: str, held: Any, residue: Residue | None, *, joined: bool = False
    ) -> AnyCanister:
        if role == "user":
            return new_user(held, self.when, joined, residue)  # type: ignore[no-any-return]
        if role == "assistant":
            return new_assistant(held, self.when, joined, residue)  # type: ignore[no-any-return]
        return new_supervisor(held, self.when, joined, residue, None, role)  # type: ignore[no-any-return]

    def _parts(
        self,
        content: list[Any],
        role: str,
        path: Path,
        form: str | None,
        envelope: Object | None,
        start: int = 0,
        *,
        joined: bool = False,
    ) -> None:
        """Add a canister for each part from a position on; the first keeps the form and the envelope."""
        for index in range(start, len(content)):
            part, place = content[index], path + (index,)
            held, patch = self.part(part, place)
            residue = None
            if part or patch is not None or envelope is not None or form is not None:
                residue = self._kept(patch, envelope, form, cache_mark(part))
            self.canisters.append(self._said(role, held, residue, joined=joined or index > 0))
            self.places.append(place)
            envelope = form = None

    def part(self, part: Any, path: Path) -> Held:
        """The content of one content part."""
        if type(part) is not dict:
            self.object(part, path)
        kind = part.get("type")
        if type(kind) is not str:
            self.fail(f"{path_text(path)}.type", "expected a string")
        read = self.part_readers.get(kind)
        found = None if read is None else read(self, part, path)
        return (new_opaque(self.dialect, kind, write_json(part)), None) if found is None else found

    def _text(self, part: Object, path: Path) -> Held:
        text = part.get("text")
        if type(text) is not str:
            text = self.text_field(part, "text", path_text(path))
        del part["text"], part["type"]
        return text, {"s": part} if part else None

    def _refusal(self, part: Object, path: Path) -> Held:
        text = self.text_field(part, "refusal", path_text(path))
        del part["refusal"], part["type"]
        return new_refusal(text), set_again(part)

    def _image(self, part: Object, path: Path) -> Held | None:
        image = part.get("image_url")
        holder: Object = image if type(image) is dict else {"url": image}
        url = holder.get("url")
        if type(url) is not str:
            url = self.text(url, f"{path_text(path)}.image_url.url")
        if not is_named(url):
            return None
        payload, mime_type, spelling = read_url(url)
        del part["image_url"], part["type"], holder["url"]
        patch = nested(part, {"image_url": nested(holder, {"url": spelling})})
        if holder is not image:
            patch = {**(patch or {}), "h": {"image_url": "url"}}
        return new_image(payload, mime_type), patch

    def _audio(self, part: Object, path: Path) -> Held:
        place = path_text(path)
        sound = self.object(self.field(part, "input_audio", place), f"{place}.input_audio")
        data = self.text_field(sound, "data", f"{place}.input_audio")
        form = sound.get("format", absent)
        dropped = ["format"] if form is absent else []
        form = None if form is absent else form
        if type(form) is str:
            del sound["format"]
        del part["input_audio"], part["type"], sound["data"]
        inner = nested(sound, {}, dropped)
        mime_type = _AUDIO_TYPES.get(str(form), f"audio/{form}")
        return new_audio(Base64(data), mime_type), nested(part, {"input_audio": inner})

    def _file(self, part: Object, path: Path) -> Held | None:
        place = path_text(path)
        file = self.object(self.field(part, "file", place), f"{place}.file")
        name, data, identifier = file.get("filename"), file.get("file_data"), file.get("file_id")
        spelling = None
        if type(data) is str:
            inline = split_data_url(data)
            mime_type, payload = inline or ("application/pdf", Base64(data))
            spelling = data_url_patch(data, mime_type, payload)
            held = new_file(payload, mime_type, name if type(name) is str else None)
            del file["file_data"]
        elif is_named(identifier):
            location = Location("file", identifier)
            held = new_file(location, "", name if type(name) is str else None)
            del file["file_id"]
        else:
            return None
        if type(name) is str:
            del file["filename"]
        del part["file"], part["type"]
        return held, nested(part, {"file": nested(file, {"file_data": spelling})})

    # --- assistant -----------------------------------------------------------------------------

    def assistant(self, message: Object, _role: str, path: Path) -> None:
        """An assistant message: its content, then its calls."""
        content = message.pop("content", absent)
        if message and (len(message) > 1 or "tool_calls" not in message):
            _open(message)
        if type(content) is str and (not message or _BESIDE.isdisjoint(message)):
            residue = None
            if message:
                form = self._form(message, None)
                residue = self._kept(None, set_again(message), form)
            self.canisters.append(new_assistant(content, self.when, False, residue))
            self.places.append(path + ("content",))
            return
        start = len(self.canisters)
        if message and not _THOUGHTS.isdisjoint(message):
            self._reasoning(message, path)
        if type(content) is str and (content or not self._says_more(message, start)):
            joined = len(self.canisters) > start
            self.canisters.append(new_assistant(content, self.when, joined))
            self.places.append(path + ("content",))
            form = None
        else:
            form = self._assistant_form(content, path, start)
        if message and not self.beside.isdisjoint(message):
            self._beside(message, path, start)
        if "tool_calls" in message or "function_call" in message:
            self._calls(message, path, start)
        if len(self.canisters) == start:
            self._add(new_assistant(absent, self.when), path)
        if message:
            form = self._form(message, form)
        if form is not None or message:
            self._keep_on_head(start, path, form, set_again(message))

    def _form(self, message: Object, form: str | None) -> str | None:  # noqa: ARG002 - for dialects with marks
        """The form of an assistant message, with the dialect's own marks."""
        return form

    def _says_more(self, message: Object, start: int) -> bool:
        """Whether an empty content stands beside other text."""
        if len(self.canisters) > start:
            return True
        return any(message.get(key) for key in ("tool_calls", "function_call", "refusal"))

    def _assistant_form(self, content: Any, path: Path, start: int) -> str | None:
        """The form of a content that is not plain text; its parts are added."""
        if content is None or content == "":
            return None if content is None else "string"
        joined = len(self.canisters) > start
        if self.call_stem and type(content) is dict:
            # Cloudflare's answer in JSON mode is the object itself (recorded 2026-01).
            said = new_assistant(write_json(content), self.when, joined)
            self._add(said, path + ("content",))
            return "json"
        if type(content) is not list or not content:
            return self._no_content(content, path)
        form = "list" if _is_one_text(content) else None
        self._parts(content, "assistant", path + ("content",), None, None, joined=joined)
        return form

    def _keep_on_head(
        self, start: int, path: Path, form: str | None, envelope: Object | None
    ) -> None:
        """Let the first canister of a message keep its form and the rest of it."""
        head = self.canisters[start]
        residue = head.residue
        if residue is not None and residue.form is not None and form is not None:
            # The head's own form is taken: an empty head carries the form of the message.
            _join(head)
            head = new_assistant(absent, self.when)
            residue = None
            self.canisters.insert(start, head)
            self.places.insert(start, path)
        if residue is None:
            kept = self._kept(None, envelope, form)
        else:
            text = None if envelope is None else write_json(envelope)
            own = residue.form if form is None else form
            kept = Residue(self.dialect, residue.part, text, own, residue.model, residue.cache)
        msgspec.structs.force_setattr(head, "residue", kept)

    def _reasoning(self, message: Object, path: Path) -> None:
        start = len(self.canisters)
        for key in _REASONING_KEYS:
            thought = message.get(key)
            if type(thought) is str and thought:
                del message[key]
                held = new_reasoning((thought,), (), None, None, Origin(self.dialect, self.model))
                residue = Residue(self.dialect, form=key)
                joined = len(self.canisters) > start
                self._add(new_assistant(held, self.when, joined, residue), path + (key,))
        if len(self.canisters) == start:
            self._details(message, path)

    def _details(self, message: Object, path: Path) -> None:
        """Thoughts that come only as details; beside a text, the details repeat it."""
        found = read_details(message.get(DETAILS), Origin(self.dialect, self.model))
        if found:
            del message[DETAILS]
        for index, (held, left) in enumerate(found):
            kept = self._kept(set_again(left), None, DETAILS)
            canister = new_assistant(held, self.when, bool(index), kept)
            self._add(canister, path + (DETAILS, index))

    def _beside(self, message: Object, path: Path, start: int) -> None:
        """The contents of an assistant message in fields beside its content."""
        refusal, audio = message.get("refusal"), message.get("audio")
        if type(refusal) is str:
            del message["refusal"]
            residue = Residue(self.dialect, form="refusal")
            joined = len(self.canisters) > start
            canister = new_assistant(new_refusal(refusal), self.when, joined, residue)
            self._add(canister, path + ("refusal",))
        if type(audio) is dict and is_named(audio.get("id")):
            del message["audio"]
            held = new_audio(Location("file", audio.pop("id")), "")
            kept = self._kept(set_again(audio), None, "audio")
            joined = len(self.canisters) > start
            self._add(new_assistant(held, self.when, joined, kept), path + ("audio",))

    def _calls(self, message: Object, path: Path, start: int) -> None:
        calls = message.get("tool_calls")
        if calls is not None and type(calls) is not list:
            self.list(calls, f"{path_text(path)}.tool_calls")
        if calls:
            if len(self.canisters) == start:
                self._add(new_assistant(absent, self.when), path)
            place = path + ("tool_calls",)
            for index, call in enumerate(calls):
                self._call(call, place + (index,), index)
            del message["tool_calls"]
        legacy = message.get("function_call") if message else None
        if type(legacy) is dict:
            if len(self.canisters) == start:
                self._add(new_assistant(absent, self.when), path)
            del message["function_call"]
            self._legacy_call(legacy, path + ("function_call",))

    def _call(self, call: Any, path: Path, index: int) -> None:
        if type(call) is not dict:
            self.object(call, path)
        kind = call.get("type", "function")
        inner = call.get(kind) if type(kind) is str else None
        is_odd = False
        if type(inner) is not dict or kind not in _CALLED:
            is_odd = type(inner) is not dict and type(call.get("function")) is dict
            if not is_odd:
                self._other_call(call, kind, path)
                return
            # Its type carries no meaning; it stays in the residue.
            kind, inner = "function", call["function"]
        dropped: Sequence[str] = () if is_odd or call.pop("type", None) else ("type",)
        identifier = call.get("id", absent)
        if type(identifier) is str and self._is_call_id(identifier):
            del call["id"]
        else:
            if identifier is absent:
                dropped = (*dropped, "id")
            stem = self.call_stem
            identifier = f"{stem}{index}" if stem else f"call_{len(self.canisters)}"
        del call[kind]
        name, arguments, patch = self._called(inner, kind, path)
        residue = None
        if patch is not None or call or dropped:
            residue = self._kept(nested(call, {kind: patch}, dropped))
        if not self.needs_call_ids:
            self._waiting.add(identifier, name)
        is_freeform = kind == "custom"
        self.canisters.append(
            new_invocation(arguments, self.when, True, residue, None, identifier, name, is_freeform)
        )
        self.places.append(path)

    def _other_call(self, call: Object, kind: Any, path: Path) -> None:
        """A call of an unknown type, kept exactly."""
        if type(kind) is not str:
            self.fail(f"{path_text(path)}.type", "expected a string")
        held = new_opaque(self.dialect, kind, write_json(call))
        opaque = Residue(self.dialect, form="tool_calls")
        self._add(new_assistant(held, self.when, True, opaque), path)

    def _called(self, function: Object, kind: str, path: Path) -> tuple[str, str, Object | None]:
        """The name and the arguments of a call, and the patch of the object that holds them."""
        name = function.get("name")
        if type(name) is not str:
            name = self.text_field(function, "name", f"{path_text(path)}.{kind}".rstrip("."))
        key = "input" if kind == "custom" else "arguments"
        arguments = function.get(key, absent)
        del function["name"]
        if type(arguments) is str:
            del function[key]
            return name, arguments, {"s": function} if function else None
        if arguments is absent:
            return name, "", nested(function, {}, [key])
        if arguments is None:
            return name, "", set_again(function)
        del function[key]
        return name, write_json(arguments), nested(function, {key: {"j": True}})

    def _legacy_call(self, function: Object, path: Path) -> None:
        name, arguments, patch = self._called(function, "", path)
        identifier = f"function_call_{self._legacy_count}"
        self._legacy_count += 1
        if self._legacy is None:
            self._legacy = {}
        self._legacy.setdefault(name, []).append(identifier)
        residue = self._kept(patch, None, "function_call")
        own = (identifier, name, False)
        self._add(new_invocation(arguments, self.when, True, residue, None, *own), path)

    # --- tool, function ------------------------------------------------------------------------

    def _result(self, message: Object, role: str, path: Path) -> None:
        content = message.pop("content", absent)
        identifier, dropped = self._answered(message, role, path)
        if message:
            _open(message)
        form: str | None = None
        inner: Object | None = None
        cache: str | None = None
        held: Any = content
        if type(content) is list:
            marks = [*filter(None, map(cache_mark, content))]
            cache = marks[-1] if marks else None
            held, form, inner = self._result_parts(content, path + ("content",))
        elif content is absent:
            held, form = "", "absent"
        elif content is None:
            held, message["content"] = "", None
        elif type(content) is not str:
            self.fail(f"{path_text(path)}.content", "expected a string or a list of parts")
        error: Any = absent
        if type(held) is str and held.startswith(FLAG):
            failed = read_error_flag(held)
            if failed is not None:
                if flag_error(failed) != held and type(content) is str:
                    message["content"] = content
                held, error = failed, True
        residue = None
        if message or dropped or form or inner or cache:
            residue = self._kept(None, nested(message, {"content": inner}, dropped), form, cache)
        self.canisters.append(new_result(held, self.when, False, residue, None, identifier, error))
        self.places.append(path)

    def _result_parts(
        self, content: list[Any], path: Path
    ) -> tuple[Any, str | None, Object | None]:
        """The contents of a result's parts, their form, and the patch of the list."""
        if not content:
            return "", "empty", None
        read = [self.part(item, path + (index,)) for index, item in enumerate(content)]
        patches = {str(index): patch for index, (_, patch) in enumerate(read) if patch is not None}
        patch = {"i": patches} if patches else None
        if len(read) == 1 and type(read[0][0]) is str:
            return read[0][0], "list", patch
        held = tuple(new_text(part) if type(part) is str else part for part, _ in read)
        return new_parts(held), None, patch

    def _answered(self, message: Object, role: str, path: Path) -> tuple[str, list[str]]:
        """The id of the answered call, and the keys that an older tool message lacks."""
        if role == "tool":
            if not self.needs_call_ids:
                return self._paired(message)
            identifier = message.pop("tool_call_id", None)
            if type(identifier) is not str:
                place = f"{path_text(path)}.tool_call_id"
                if identifier is None:
                    self.fail(place, "is required")
                self.text(identifier, place)
            return identifier, []
        name = self.text_field(message, "name", path_text(path))
        message["role"] = role
        dropped = [] if "tool_call_id" in message else ["tool_call_id"]
        waiting = None if self._legacy is None else self._legacy.get(name)
        return (waiting.pop(0) if waiting else f"function_call_{name}"), dropped

    def _is_call_id(self, identifier: str) -> bool:
        return bool(identifier) or not (self.call_stem or not self.needs_call_ids)

    def _paired(self, message: Object) -> tuple[str, list[str]]:
        """The id of the call that a result answers, if the result may omit it."""
        given = message.get("tool_call_id")
        if type(given) is str and self._is_call_id(given):
            del message["tool_call_id"]
            self._waiting.answer(given)
            return given, []
        name = message.get("name")
        found = self._waiting.take(name if type(name) is str else None, len(self.canisters))
        return found, [] if "tool_call_id" in message else ["tool_call_id"]

    # --- tables --------------------------------------------------------------------------------

    # The readers by role and by part type; a dialect with other roles or types has its own tables.
    readers: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(SPEAKERS, _spoken),
        "assistant": assistant,
        **dict.fromkeys(("tool", "function"), _result),
    }
    part_readers: ClassVar[Mapping[str, Any]] = {
        "text": _text,
        "refusal": _refusal,
        "image_url": _image,
        "input_audio": _audio,
        "file": _file,
    }


def _open(message: Object) -> None:
    """Decode the objects among the fields of a message."""
    for key, value in message.items():
        if type(value) is dict:
            message[key] = decoded(value)


def _join(canister: AnyCanister) -> None:
    """Mark a new canister as part of the message before it."""
    msgspec.structs.force_setattr(canister, "joined", True)


def _is_one_text(content: list[Any]) -> bool:
    """Whether a list holds one text, which would be written as a string."""
    first = content[0]
    return len(content) == 1 and type(first) is dict and first.get("type") == "text"
