"""Reading generateContent bodies.

A content becomes one canister for each part, joined; what the model has no place for is remembered as the difference
to what writing would give. Calls without an id get one from their place in the conversation, and results find their
call by id or else by name and order; neither id goes back to Gemini.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from cannery.dialects.gemini_generate.call_ids import CallIds
from cannery.dialects.gemini_generate.outputs import OUTPUT, unwrap, wrap_failure, wrap_text
from cannery.dialects.gemini_generate.settings import (
    CONTROL_PATHS,
    read_controls,
    read_shapes,
    read_tool_choice,
    read_tools,
    tool_paths,
    write_settings,
)
from cannery.dialects.gemini_generate.spelling import (
    NAME,
    Object,
    camel,
    get,
    spelled,
    write_form,
)
from cannery.dialects.gemini_generate.writing import ACCOUNT, SIGNATURE, MessageWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.content import (
    Origin,
    new_audio,
    new_data,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_text,
    new_video,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.arguments import input_text
from cannery.wire.bodies import guarded, is_named, read_object
from cannery.wire.canister_reading import CanisterReader
from cannery.wire.contract import Piece
from cannery.wire.losses import Report
from cannery.wire.media import contradiction
from cannery.wire.places import Places, note_settings
from cannery.wire.residues import patch_text, remember
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["gemini"]
# Longer settings hold something that seldom comes twice.
_SHORT = 2048
_MAKERS = {"image": new_image, "audio": new_audio, "video": new_video}
_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:[ \t]*;[^\r\n]*)?", re.ASCII)
_YOUTUBE = re.compile(r"https?://(?:www\.|m\.)?(?:youtube\.com|youtu\.be)/", re.IGNORECASE)
_EXTENSIONS = {
    **dict.fromkeys(("png", "jpg", "jpeg", "webp", "gif", "heic", "heif"), "image/"),
    **dict.fromkeys(("wav", "mp3", "aac", "flac", "ogg", "m4a"), "audio/"),
    **dict.fromkeys(("mp4", "mov", "mpeg", "webm", "avi", "wmv", "3gp"), "video/"),
}
# The fields of which a part has one; text is last, since it stands beside others when it is empty.
_DATA = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "text",
)


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = MessageReader()
    read = {"contents", reader.system(body)}
    shapes = [*reader.contents(body), *read_shapes(body)]
    places.canisters.extend(reader.paths)
    note_settings(places, body, CONTROL_PATHS, spelled)
    places.tools.extend(tool_paths(body))
    known = (
        Conversation.trusted(reader.canisters),
        absent,
        read_tools(body),
        read_tool_choice(body),
        read_controls(body),
    )
    request = new_request(*known, source=NAME)
    rest = {key: item for key, item in body.items() if key not in read}
    patch = patch_text(write_settings(request, Report(), frozenset(shapes)), rest, camel)
    form = write_form(shapes)
    if patch is None and form is None:
        return request  # type: ignore[no-any-return]
    residue = Residue(NAME, envelope=patch, form=form)
    return new_request(*known, residue=residue, source=NAME)  # type: ignore[no-any-return]


class MessageReader(CanisterReader):
    """Reads the contents of one body, in order."""

    def __init__(self, model: Any = None, stem: str = "call_") -> None:
        super().__init__(NAME)
        self.model = model if type(model) is str else None
        self.ids = CallIds(stem)

    @cached_property
    def writer(self) -> MessageWriter:
        """What says how a part would be written."""
        return MessageWriter(Report(), at_home=True, is_plain=True)

    def contents(self, body: Object) -> list[str]:
        """All contents of a body; gives the shape that they came in."""
        value = self.field(body, "contents", "")
        shapes = ["content"] if type(value) is dict else []
        listed = [value] if shapes else self.list(value, "contents")
        self.ids.expect(listed)
        for index, item in enumerate(listed):
            path = "contents" if shapes else f"contents[{index}]"
            content = self.object(item, path)
            role = self._role(content, index)
            if role not in (content.get("role"), None):
                content = {**content, "role": role}
            self.content(content, "model" if role == "model" else "user", path)
        return shapes

    def _role(self, content: Object, index: int) -> str | None:
        role = content.get("role")
        if role is None:
            return None
        return read_role(NAME, role, _ROLES, f"contents.{index}.role")

    # --- system --------------------------------------------------------------------------------

    def system(self, body: Object) -> str:
        """The system instruction; gives its key where it says anything, and "" where it is left to the residue."""
        key = spelled(body, "systemInstruction")
        value = body.get(key)
        shapes = [] if key == "systemInstruction" else [key]
        rest: Object = {}
        path = key
        parts: list[Any] = []
        if type(value) is str:
            parts, shapes = [{"text": value}], [*shapes, "string"]
        elif type(value) is list:
            parts, shapes = value, [*shapes, "list"]
        elif type(value) is dict and "parts" not in value and type(value.get("text")) is str:
            parts, shapes = [value], [*shapes, "part"]
        elif type(value) is dict:
            parts, shape = self._listed(value, key)
            shapes = [*shapes, shape]
            rest = {name: item for name, item in value.items() if name != "parts"}
            path = f"{key}.parts"
        if not parts:
            return ""
        for index, item in enumerate(parts):
            is_single = path == key and "list" not in shapes
            place = path if is_single or "object" in shapes else f"{path}[{index}]"
            self._spoken(self.object(item, place), "system", place, joined=index > 0)
        form = write_form(shapes)
        for canister in self.canisters:
            remember(canister, dialect=NAME, form=form)
        remember(self.canisters[0], dialect=NAME, envelope=patch_text({}, rest))
        return key

    # --- contents ------------------------------------------------------------------------------

    def content(self, content: Object, role: str, path: str) -> None:
        """One content: a canister for each part."""
        start = len(self.canisters)
        parts, shape = self._listed(content, path)
        for index, item in enumerate(parts):
            place = f"{path}.parts" if shape == "object" else f"{path}.parts[{index}]"
            self._part(self.object(item, place), role, place, start)
        if len(self.canisters) == start:
            silent = new_user("", self.when) if role == "user" else new_assistant(absent, self.when)
            self.add(silent, path)
        head = self.canisters[start]
        rest = {key: item for key, item in content.items() if key != "parts"}
        form = None if head.residue is None else head.residue.form
        if shape:
            form = f"{shape}\n{form}" if form else shape
        remember(head, dialect=NAME, envelope=patch_text({"role": role}, rest), form=form)

    def _listed(self, content: Object, path: str) -> tuple[list[Any], str]:
        """The parts of a content, and their shape where it is not the usual list."""
        if "parts" not in content:
            return [], "absent"
        parts = content["parts"]
        if parts is None:
            return [], "null"
        if type(parts) is dict:
            return [parts], "object"
        return self.list(parts, f"{path}.parts"), ("" if parts else "empty")

    def _part(self, part: Object, role: str, path: str, start: int) -> None:
        joined = len(self.canisters) > start
        if role == "model" and type(call := get(part, "functionCall")) is dict:
            if not _is_fragment(call):
                if not joined:
                    self.add(new_assistant(absent, self.when), path.rpartition(".parts")[0])
                self.call(part, call, path)
                return
        elif role == "user" and type(response := get(part, "functionResponse")) is dict:
            self._result(part, response, path, joined=joined)
            return
        self._spoken(part, role, path, joined=joined)

    def _spoken(self, part: Object, role: str, path: str, *, joined: bool) -> None:
        held = self.held(part, role, path)
        if role == "user":
            canister = new_user(held, self.when, joined)
        elif role == "model":
            canister = new_assistant(held, self.when, joined)
        else:
            canister = new_supervisor(held, self.when, joined)
        self.add(canister, path)
        if type(held) is not str or len(part) > 1:
            self._remember(canister, self.writer.content_parts(held, None)[0], part)

    def _remember(self, canister: AnyCanister, ours: Object, part: Object) -> None:
        """Keep what the usual form of a part would not say, and who signed it."""
        patch = patch_text(ours, part, camel)
        model = self.model if patch is not None and get(part, SIGNATURE) is not None else None
        remember(canister, dialect=NAME, part=patch, model=model)

    # --- what is said --------------------------------------------------------------------------

    def held(self, part: Object, role: str, path: str) -> Any:
        """What one part says."""
        kind = next((key for key in _DATA if get(part, key) is not None), "")
        is_thought = part.get("thought") is True
        if kind == "text":
            words = self.text(part["text"], f"{path}.text")
            return self._reasoning(part, words) if is_thought and role == "model" else words
        if kind == "inlineData" and not is_thought:
            key = spelled(part, kind)
            return self._inline(self.object(part[key], f"{path}.{key}"), part, f"{path}.{key}")
        if kind == "fileData" and not is_thought:
            key = spelled(part, kind)
            return self._located(self.object(part[key], f"{path}.{key}"), part, f"{path}.{key}")
        if kind in ("functionCall", "functionResponse"):
            self.object(get(part, kind), f"{path}.{spelled(part, kind)}")
        return self._opaque(part, kind)

    def _opaque(self, part: Object, kind: str) -> Any:
        """A part that nobody here knows, kept to the letter."""
        tag = kind or camel(next(iter(part), "")) or "part"
        return new_opaque(NAME, tag, write_json(part))

    def _reasoning(self, part: Object, words: str) -> Any:
        signature = get(part, SIGNATURE)
        signed = signature if type(signature) is str else None
        texts = (words,) if words else ()
        return new_reasoning(texts, (), signed, None, Origin(NAME, self.model))

    def _inline(self, blob: Object, part: Object, path: str) -> Any:
        payload = Base64(self.text_field(blob, "data", path))
        mime_type = _declared(blob)
        seen = contradiction(mime_type.partition(";")[0].strip().lower(), payload)
        mime_type = mime_type or seen or "application/octet-stream"
        # What it is the bytes tell; what it was called is for the repairs to correct.
        kind = seen or mime_type
        if kind.startswith("text/") and not payload.is_readable:
            return self._opaque(part, "inlineData")
        return _media(kind, mime_type, payload, _display_name(blob))

    def _located(self, file: Object, part: Object, path: str) -> Any:
        key = spelled(file, "fileUri")
        uri = self.text_field(file, key, path)
        if not is_named(uri):
            return self._opaque(part, "fileData")
        mime_type = _declared(file)
        is_public = uri.lower().startswith(("http://", "https://")) and not uri.startswith(ACCOUNT)
        location = Location("url" if is_public else "file", uri)
        return _media(mime_type or _guess(uri), mime_type, location, _display_name(file))

    # --- tools ---------------------------------------------------------------------------------

    def call(self, part: Object, call: Object, path: str) -> None:
        """One call; an id that is not given is made from its place."""
        inner = f"{path}.{spelled(part, 'functionCall')}"
        name = self.text_field(call, "name", inner)
        if not name:
            self.fail(f"{inner}.name", "must not be empty")
        identifier = get(call, "id")
        if type(identifier) is not str or not identifier:
            identifier = self.ids.make()
        self.ids.call(identifier, name, len(self.canisters))
        arguments = call.get("args")
        words = "" if arguments is None else input_text(arguments)
        own = (identifier, name, False)
        canister = new_invocation(words, self.when, True, None, None, *own)
        self.add(canister, path)
        self._remember(canister, self.writer.call(Piece(canister, None)), part)

    def _result(self, part: Object, response: Object, path: str, *, joined: bool) -> None:
        inner = f"{path}.{spelled(part, 'functionResponse')}"
        name = response.get("name")
        if name is not None or get(response, "id") is None:
            name = self.text_field(response, "name", inner)
        held, error, shapes = self._answer(response, inner)
        own = (self.ids.answered(get(response, "id"), name), error)
        canister = new_result(held, self.when, joined, None, None, *own)
        self.add(canister, path)
        if name is None:
            shapes.append("nameless")
        remember(canister, dialect=NAME, form=write_form(shapes, name))
        self._remember(canister, self.writer.result(Piece(canister, None)), part)

    def _answer(self, response: Object, path: str) -> tuple[Any, Any, list[str]]:
        value = response.get("response")
        held: Any
        error: Any = absent
        shapes: list[str] = []
        if type(value) is dict:
            held, error = unwrap(value)
            if type(held) is str and _text_changes(
                held, wrap_text if error is absent else wrap_failure
            ):
                shapes.append(OUTPUT)
        elif type(value) is str:
            held = value
        else:
            held = "" if value is None else new_data(write_json(value))
        media = response.get("parts")
        if type(media) is not list or not media:
            return held, error, shapes
        parts: list[Any] = [] if value in ({}, None) else [_wrapped(held)]
        for index, item in enumerate(media):
            place = f"{path}.parts[{index}]"
            parts.append(_wrapped(self.held(self.object(item, place), "user", place)))
        return new_parts(tuple(parts)), error, shapes


def _is_fragment(call: Object) -> bool:
    """Whether a call is only a piece of one, as Vertex streams it; the last piece is empty."""
    if "name" in call:
        return False
    is_partial = get(call, "partialArgs") is not None or get(call, "willContinue") is not None
    return is_partial or all(value is None for value in call.values())


def _declared(holder: Object) -> str:
    """The MIME type of media; "" for what is none."""
    declared = get(holder, "mimeType")
    return declared if type(declared) is str and _MIME.fullmatch(declared) else ""


def _display_name(holder: Object) -> str | None:
    name = get(holder, "displayName")
    return name if type(name) is str else None


def _family(mime_type: str) -> str:
    family = mime_type.partition("/")[0].lower()
    return family if family in ("image", "audio", "video") else "file"


def _guess(uri: str) -> str:
    """The family that a location without a type gives away."""
    if _YOUTUBE.match(uri):
        return "video/"
    return _EXTENSIONS.get(uri.partition("?")[0].rpartition(".")[2].lower(), "")


def _media(kind: str, mime_type: str, payload: Any, name: str | None) -> Any:
    if _family(kind) == "file":
        return new_file(payload, mime_type, name)
    return _MAKERS[_family(kind)](payload, mime_type)


def _text_changes(words: str, wrap: Callable[[str], Any]) -> bool:
    """Whether text under ``output`` or ``error`` would by default be written as something else."""
    if words.lstrip()[:1] not in ("{", "["):
        return False
    wrapped = wrap(words)
    return type(wrapped) is not dict or words not in wrapped.values()


def _wrapped(held: Any) -> Any:
    return new_text(held) if type(held) is str else held
