"""Reads generateContent bodies.

A content becomes one canister per part, joined. The reader takes the keys that it understands out of the decoded
objects; the rest is the residue. Calls without an id get one from their place in the conversation, and results find
their call by id or else by name and order; neither id is sent back to Gemini.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Union

import msgspec
from msgspec import Raw

from cannery.dialects.gemini_generate.call_ids import CallIds
from cannery.dialects.gemini_generate.forms import (
    APART,
    NAME,
    OUTPUT,
    SIGNATURE,
    WITHIN,
    Section,
    both,
    camel,
    expect,
    fail,
    get,
    json_text,
    spelled,
    text_changes,
    unwrap,
    whole_value,
    words_in,
    write_form,
)
from cannery.dialects.gemini_generate.settings import read_settings
from cannery.families.gemini.reading import MISSING, located
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    ResultCanisterClass,
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
from cannery.messages.payload import Base64
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.arguments import argument_text, unwrapped_input
from cannery.wire.bodies import Object, body_reader, decode, is_named, long_text, plain
from cannery.wire.media import contradiction
from cannery.wire.places import Path, Places
from cannery.wire.residues import nested, respelled, set_again
from cannery.wire.wire_roles import read_role

# The decoded levels of a body; deeper values stay text: arguments, responses, schemas, base64.
_Inner = Union[str, bool, int, float, list[Any], dict[str, Raw], None]  # noqa: UP007 - msgspec
_Item = Union[dict[str, _Inner], str, bool, int, float, list[Any], None]  # noqa: UP007 - msgspec
Field = Union[list[_Item], dict[str, _Inner], str, bool, int, float, None]  # noqa: UP007 - msgspec
_Entry = Union[dict[str, Field], str, bool, int, float, list[Any], None]  # noqa: UP007 - msgspec
_Top = Union[list[_Entry], dict[str, Field], str, bool, int, float, None]  # noqa: UP007 - msgspec
_decode_request = msgspec.json.Decoder(dict[str, _Top]).decode

_ROLES = VOCABULARIES["gemini"]
_SPEAKERS = {"user": new_user, "model": new_assistant, "system": new_supervisor}
# The data fields of a part, which has one; text is last, because an empty text may stand beside another.
_DATA = (
    *("functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "text"),
)
_RANKS = {spelling: _DATA.index(key) for spelling, key in both(_DATA).items()}
_CALL, _RESPONSE, _INLINE, _FILE, _TEXT, _UNKNOWN = 0, 1, 2, 3, 8, 9
_MAKERS = {"image": new_image, "audio": new_audio, "video": new_video}
_MEDIA_KEYS = both(("fileUri", "mimeType", "displayName"))
_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:[ \t]*;[^\r\n]*)?", re.ASCII)
_YOUTUBE = re.compile(r"https?://(?:www\.|m\.)?(?:youtube\.com|youtu\.be)/", re.IGNORECASE)
_EXTENSIONS = {
    **dict.fromkeys(("png", "jpg", "jpeg", "webp", "gif", "heic", "heif"), "image/"),
    **dict.fromkeys(("wav", "mp3", "aac", "flac", "ogg", "m4a"), "audio/"),
    **dict.fromkeys(("mp4", "mov", "mpeg", "webm", "avi", "wmv", "3gp"), "video/"),
}


@body_reader(NAME, _decode_request)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    reader = MessageReader(places.canisters)
    reader.system(body)
    shapes = reader.contents(body)
    settings = read_settings(body, places, shapes)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


class MessageReader:
    """Reads the contents of one body, in order; ``paths`` gets the place of each canister.

    ``model`` is the model that produced the content; ``stem`` is the prefix of generated ids.
    """

    # What the next canister remembers of the content that it opens.
    _envelope: str | None = None
    _shape = ""
    _opened: Path = ()
    # The contents that are not read yet: no generated id may equal one of theirs.
    unread: Sequence[Any] = ()
    _parts: Sequence[Any] = ()
    _known: CallIds | None = None

    def __init__(self, paths: list[Path], model: Any = None, stem: str = "call_") -> None:
        self.when = now()
        self.canisters: list[AnyCanister] = []
        self.paths = paths
        self.model = model if type(model) is str else None
        self._stem = stem

    def _ids(self) -> CallIds:
        """The call ids; most bodies have none."""
        ids = self._known
        if ids is None:
            ids = self._known = CallIds(self._stem)
        return ids

    def contents(self, body: Object) -> list[str]:
        """Read all contents of a body; returns their shape."""
        value = body.pop("contents", MISSING)
        is_single = type(value) is dict
        if is_single:
            value = [value]
        elif type(value) is not list:
            expect(list, value, ("contents",))
        self.unread = value
        for index, content in enumerate(value):
            path: Path = ("contents",) if is_single else ("contents", index)
            if type(content) is not dict:
                expect(dict, content, path)
            given = content.pop("role", MISSING)
            role = "user"
            if given == "user" or given == "model":  # noqa: PLR1714 - a tuple is slower
                role = given
            elif given is not MISSING and given is not None:
                given = read_role(NAME, given, _ROLES, f"contents.{index}.role")
                role = "model" if given == "model" else "user"
            self.content(content, role, given, path)
        return ["content"] if is_single else []

    # --- system --------------------------------------------------------------------------------

    def system(self, body: Object) -> None:
        """The system instruction; an empty one stays in the residue."""
        key = "systemInstruction"
        if key not in body:
            key = "system_instruction"
        value: Any = body.get(key)
        if value is None:
            return
        shapes = [] if key == "systemInstruction" else [key]
        path: Path = (key,)
        if type(value) is str:
            parts, shape = [{"text": value}], "string"
        elif type(value) is list:
            parts, shape = value, "list"
        elif "parts" not in expect(dict, value, path) and value.get("text") is not None:
            parts, shape = [value], "part"
        else:
            path = (key, "parts")
            parts, shape = self._listed(value.get("parts", MISSING), path)
        if not parts:
            return
        del body[key]
        if len(path) > 1:
            del value["parts"]
            self._envelope = write_json({"s": value}) if value else None
        form = write_form([*shapes, shape]) or ""
        is_listed = shape in ("", "list")
        for index, part in enumerate(parts):
            self._shape = form
            self._part(part, "system", path + (index,) if is_listed else path, index > 0)

    # --- contents ------------------------------------------------------------------------------

    def content(self, content: Object, role: str, given: Any, path: Path) -> None:
        """Read one content, whose role is ``given``: a canister for each part."""
        self._opened = path
        parts = content.pop("parts", MISSING)
        if given is MISSING:
            self._envelope = write_json(nested(content, {}, ("role",)))
        else:
            if given != role:
                content["role"] = given
            if content:
                self._envelope = write_json({"s": content})
        place = path + ("parts",)
        if type(parts) is not list or not parts:
            parts, self._shape = self._listed(parts, place)
            if not parts:
                is_user = role == "user"
                said, make = ("", new_user) if is_user else (absent, new_assistant)
                self._add(make(said, self.when, False, self._residue()), path)
            else:
                self._part(parts[0], role, place, False)
            return
        self._parts = parts
        for index, part in enumerate(parts):
            self._part(part, role, place + (index,), index > 0)

    def _listed(self, parts: Any, path: Path) -> tuple[list[Any], str]:
        """The parts of a content, and their shape if it is not the usual list."""
        if parts is MISSING:
            return [], "absent"
        if parts is None:
            return [], "null"
        if type(parts) is dict:
            return [parts], "object"
        return expect(list, parts, path), ("" if parts else "empty")

    def _add(self, canister: AnyCanister, path: Path) -> None:
        self.canisters.append(canister)
        self.paths.append(path)

    def _residue(
        self, patch: Object | None = None, form: str | None = None, model: str | None = None
    ) -> Residue | None:
        """The residue of the next canister, with what it remembers of the content that it opens."""
        envelope, shape = self._envelope, self._shape
        self._envelope, self._shape = None, ""
        if shape:
            form = f"{shape}\n{form}" if form else shape
        if patch is None and envelope is None and form is None:
            return None
        return Residue(NAME, None if patch is None else write_json(patch), envelope, form, model)

    def _part(self, part: Any, role: str, path: Path, joined: bool) -> None:  # noqa: FBT001 - as the makers
        """Read one part: a canister of its content, a call or a result."""
        if type(part) is not dict:
            expect(dict, part, path)
        is_text = len(part) == 1 and type(part.get("text")) is str
        key, rank = ("text", _TEXT) if is_text else _data_of(part)
        patch: Object | None = None
        model = None
        if joined and role == "model" and path[0] == "contents":
            joined = self._continues(is_result=rank == _RESPONSE)
        if rank == _TEXT:
            held: Any = part.pop(key)
            if type(held) is not str:
                expect(str, held, path + (key,))
            if part:
                model = self._signer(part)
                if role == "model" and part.get("thought") is True:
                    held, patch = self._reasoning(part, held)
                else:
                    patch = {"s": part}
        elif rank == _RESPONSE and path[0] == "contents":
            self._result(part, key, path, joined, is_apart=role == "model")
            return
        elif rank == _CALL and role == "model" and _is_call(part[key]):
            self._call(part, key, path, joined)
            return
        else:
            model = self._signer(part)
            held, patch = self._held(part, key, rank, path)
        residue = None
        if patch is not None or self._envelope is not None or self._shape:
            residue = self._residue(patch, None, model)
        self.canisters.append(_SPEAKERS[role](held, self.when, joined, residue))
        self.paths.append(path)

    def _continues(self, *, is_result: bool) -> bool:
        """Whether a part of a model's turn is joined to the part before it: a result is no part of another message.

        Google's SDK keeps the results of its automatic calls in the model's turns (js-genai, recorded 2026-02).
        """
        if is_result is (type(self.canisters[-1]) is ResultCanisterClass):
            return True
        self._shape = WITHIN
        return False

    def _signer(self, part: Object) -> str | None:
        """The model that signed a part, if known."""
        is_signed = part and self.model is not None and get(part, SIGNATURE) is not None
        return self.model if is_signed else None

    # --- what is said --------------------------------------------------------------------------

    def _held(self, part: Object, key: str, rank: int, path: Path) -> tuple[Any, Object | None]:
        """The content of a part that is not text, and the patch for the rest of it."""
        if rank in (_INLINE, _FILE) and part.get("thought") is not True:
            place = path + (key,)
            media = _read_media(expect(dict, part[key], place), rank, place)
            if media is not None:
                del part[key]
                return media[0], _beside_data(key, rank, media[1], part)
        elif rank in (_CALL, _RESPONSE):
            expect(dict, part[key], path + (key,))
        tag = _DATA[rank] if key else camel(next(iter(part), "")) or "part"
        return new_opaque(NAME, tag, write_json(part)), None

    def _reasoning(self, part: Object, words: str) -> tuple[Any, Object | None]:
        del part["thought"]
        key = spelled(part, SIGNATURE)
        signed, renamed = None, None
        if type(part.get(key)) is str:
            signed = part.pop(key)
            renamed = None if key == SIGNATURE else {SIGNATURE: key}
        texts = (words,) if words else ()
        held = new_reasoning(texts, (), signed, None, Origin(NAME, self.model))
        return held, nested(part, {}, (), renamed)

    # --- tools ---------------------------------------------------------------------------------

    def _call(self, part: Object, key: str, path: Path, joined: bool) -> None:  # noqa: FBT001 - as the makers
        """One call; a missing id is generated from its place."""
        if not joined:
            # The number of texts in the turn: none.
            is_odd = self._envelope is not None or self._shape
            residue = self._residue() if is_odd else None
            self._add(new_assistant(absent, self.when, False, residue), self._opened)
        call = part.pop(key)
        name, identifier = call.pop("name", MISSING), call.pop("id", MISSING)
        if type(name) is Raw:
            name = decode(name)
        if type(name) is not str or not name:
            expect(str, name, path + (key, "name"))
            fail(path + (key, "name"), "must not be empty")
        if type(identifier) is Raw:
            identifier = decode(identifier)
        ids = self._known or self._ids()
        dropped: tuple[str, ...] = ()
        if type(identifier) is not str or not identifier:
            if identifier is MISSING:
                dropped = ("id",)
            else:
                call["id"] = identifier
            unread, self.unread = self.unread, ()
            identifier = ids.make([{"parts": self._parts}, *unread] if unread else ())
        ids.call(identifier, name, len(self.canisters))
        words, spelling = _arguments(call)
        residue = None
        if part or call or dropped or spelling or key != _DATA[_CALL]:
            inner = nested(call, {}, dropped) if call or dropped else None
            inner = respelled(inner, spelling)
            patch = _beside_data(key, _CALL, inner, part)
            residue = self._residue(patch, None, self._signer(part))
        canister = new_invocation(words, self.when, True, residue, None, identifier, name, False)
        self.canisters.append(canister)
        self.paths.append(path)

    def _result(
        self,
        part: Object,
        key: str,
        path: Path,
        joined: bool,  # noqa: FBT001 - as the makers
        *,
        is_apart: bool,
    ) -> None:
        place = path + (key,)
        answer = part.pop(key)
        if type(answer) is not dict:
            expect(dict, answer, place)
        given, name = answer.pop("id", MISSING), answer.pop("name", MISSING)
        if type(given) is Raw:
            given = decode(given)
        if type(name) is Raw:
            name = decode(name)
        shapes = [APART] if is_apart else []
        if name is MISSING or name is None:
            if given is MISSING or given is None:
                expect(str, name, place + ("name",))
            shapes.append("nameless")
            if name is None:
                answer["name"] = name
            name = None
        elif type(name) is not str:
            expect(str, name, place + ("name",))
        identifier = (self._known or self._ids()).answered(given, name)
        dropped = []
        if given is MISSING:
            dropped.append("id")
        elif given != identifier:
            answer["id"] = given
        held, error, inner = self._answer(answer, place, dropped, shapes)
        patch = None
        if part or answer or inner or dropped or key != _DATA[_RESPONSE]:
            patch = _beside_data(key, _RESPONSE, nested(answer, inner, dropped), part)
        residue = self._residue(patch, write_form(shapes, name), self._signer(part))
        canister = new_result(held, self.when, joined, residue, None, identifier, error)
        self.canisters.append(canister)
        self.paths.append(path)

    def _answer(
        self, answer: Object, path: Path, dropped: list[str], shapes: list[str]
    ) -> tuple[Any, Any, Object]:
        """The output of a tool, whether it failed, and the patches of its contents."""
        given = answer.pop("response", MISSING)
        held: Any = ""
        error: Any = absent
        text = ""
        words = None if given is MISSING else words_in(given)
        if words is not None:
            held, error = words
            if text_changes(held, is_failure=error is not absent):
                shapes.append(OUTPUT)
        elif given is MISSING:
            dropped.append("response")
        else:
            text = json_text(given)
            if text[0] == "{":
                held, error = unwrap(text)
            else:
                answer["response"] = given
                if text != "null":
                    held = plain(given) if text[0] == '"' else new_data(text)
        if "parts" not in answer:
            return held, error, {}
        media = answer["parts"]
        media = plain(media) if type(media) is Raw else whole_value(media)
        if media is None or media == []:
            return held, error, {}
        listed = [media] if type(media) is dict else media
        place = path + ("parts",)
        contents, patches = self._media_of(expect(list, listed, place), place)
        if words or text not in ("", "null", "{}"):
            contents.insert(0, new_text(held) if type(held) is str else held)
        parts = new_parts(tuple(contents))
        if patches is None:
            # Texts among the media are read with the response and are not written as they came.
            if given is not MISSING:
                answer["response"] = given
            return parts, error, {}
        if listed is not media:
            shapes.append("single")
        del answer["parts"]
        return parts, error, {"parts": {"i": patches}} if patches else {}

    def _media_of(self, listed: list[Any], path: Path) -> tuple[list[Any], Object | None]:
        """The contents beside a response and their patches by position; None for these if there is text."""
        contents: list[Any] = []
        patches: Object | None = {}
        for index, item in enumerate(listed):
            place = path + (index,)
            part = expect(dict, item, place)
            key, rank = _data_of(part)
            if rank == _TEXT:
                words = expect(str, part[key], place + (key,))
                contents.append(new_text(words))
                patches = None
                continue
            held, patch = self._held(part, key, rank, place)
            contents.append(held)
            if patches is not None and patch is not None:
                patches[str(index)] = patch
        return contents, patches


def _data_of(part: Object) -> tuple[str, int]:
    """The data key of a part, and its rank in ``_DATA``."""
    key, rank = "", _UNKNOWN
    for name, value in part.items():
        found = _RANKS.get(name, _UNKNOWN)
        if found < rank and value is not None:
            key, rank = name, found
    return key, rank


def _beside_data(key: str, rank: int, inner: Object | None, part: Object) -> Object | None:
    """The patch of a part: the patch of its data under a key, and the rest beside the data."""
    usual = _DATA[rank]
    if key == usual:
        return set_again(part) if inner is None else nested(part, {usual: inner})
    return nested(part, {usual: inner}, (), {usual: key})


def _arguments(call: Object) -> tuple[str, Object]:
    """The argument text of a call, as the body spells it, and the spelling of a value that is not an object."""
    given = call.pop("args", MISSING)
    if given is MISSING:
        return "", {}
    text = json_text(given)
    if text[0] == "{":
        return unwrapped_input(text), {}
    value = plain(given)
    return argument_text(value), {"args": value}


def _is_call(call: Any) -> bool:
    """Whether a call is complete, not one of several pieces as Vertex streams it; the last piece is empty."""
    if type(call) is not dict:
        return False
    if "name" in call:
        return True
    is_partial = get(call, "partialArgs") is not None or get(call, "willContinue") is not None
    return not is_partial and any(plain(value) is not None for value in call.values())


def _read_media(holder: Object, rank: int, path: Path) -> tuple[Any, Object | None] | None:
    """Inline data or a file by its address, and the patch of its object; None if it cannot be shown."""
    section = Section(holder, _MEDIA_KEYS)
    source = "data" if rank == _INLINE else "fileUri"
    key = section.keys.get(source, source)
    given = expect(str, long_text(holder.get(key, MISSING)), path + (key,))
    declared = section.get("mimeType")
    is_typed = type(declared) is str and _MIME.fullmatch(declared) is not None
    mime_type: str = declared if is_typed else ""
    payload: Any
    if rank == _INLINE:
        payload = Base64(given)
        seen = contradiction(mime_type.partition(";")[0].strip().lower(), payload)
        mime_type = mime_type or seen or "application/octet-stream"
        # The type comes from the bytes; a wrong declared type is corrected by the repairs.
        kind = seen or mime_type
        if kind.startswith("text/") and not payload.is_readable:
            return None
    elif not is_named(given):
        return None
    else:
        payload = located(given)
        kind = mime_type or _guess(given)
    section.take(source)
    if is_typed:
        section.take("mimeType")
    elif mime_type and "mimeType" not in holder:
        section.dropped.append("mimeType")
    make = _MAKERS.get(kind.partition("/")[0].lower())
    if make is not None:
        return make(payload, mime_type), section.patch()
    name = section.get("displayName")
    if type(name) is str:
        section.take("displayName")
    else:
        name = None
    return new_file(payload, mime_type, name), section.patch()


def _guess(uri: str) -> str:
    """The media family of a location without a type."""
    if _YOUTUBE.match(uri):
        return "video/"
    return _EXTENSIONS.get(uri.partition("?")[0].rpartition(".")[2].lower(), "")
