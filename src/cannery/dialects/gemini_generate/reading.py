"""Reading generateContent bodies.

A content becomes one canister for each part, joined. The reader takes the keys that it understands out of the decoded
objects; what is left in them is the residue. Calls without an id get one from their place in the conversation, and
results find their call by id or else by name and order; neither id goes back to Gemini.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Union

import msgspec
from msgspec import Raw

from cannery.dialects.gemini_generate.call_ids import CallIds
from cannery.dialects.gemini_generate.media import read_file, read_inline
from cannery.dialects.gemini_generate.outputs import OUTPUT, text_changes, unwrap
from cannery.dialects.gemini_generate.settings_reading import read_settings
from cannery.dialects.gemini_generate.spelling import (
    MISSING,
    NAME,
    SIGNATURE,
    Object,
    both,
    camel,
    get,
    plain,
    spelled,
    write_form,
)
from cannery.dialects.gemini_generate.taking import (
    Steps,
    fail,
    json_text,
    list_at,
    make_patch,
    nested_patch,
    object_at,
    text_at,
    whole_value,
)
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
    new_data,
    new_opaque,
    new_parts,
    new_reasoning,
    new_text,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.arguments import RAW_ARGUMENTS, input_text
from cannery.wire.bodies import read_body
from cannery.wire.places import Path, Places
from cannery.wire.wire_roles import read_role

# The levels of a body that are looked at; what lies below them stays text: arguments, responses, schemas, base64.
_Inner = Union[str, bool, int, float, list[Any], dict[str, Raw], None]  # noqa: UP007 - msgspec
_Item = Union[dict[str, _Inner], str, bool, int, float, list[Any], None]  # noqa: UP007 - msgspec
Field = Union[list[_Item], dict[str, _Inner], str, bool, int, float, None]  # noqa: UP007 - msgspec
_Entry = Union[dict[str, Field], str, bool, int, float, list[Any], None]  # noqa: UP007 - msgspec
_Top = Union[list[_Entry], dict[str, Field], str, bool, int, float, None]  # noqa: UP007 - msgspec
_decode_request = msgspec.json.Decoder(dict[str, _Top]).decode

_ROLES = VOCABULARIES["gemini"]
_SPEAKERS = {"user": new_user, "model": new_assistant, "system": new_supervisor}
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
_RANKS = {spelling: _DATA.index(key) for spelling, key in both(_DATA).items()}
_CALL, _RESPONSE, _INLINE, _FILE, _TEXT, _UNKNOWN = 0, 1, 2, 3, 8, 9


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    return read_body(NAME, body, places, _decode_request, _read_request)


def _read_request(body: Object, places: Places) -> Request:
    reader = MessageReader(places.canisters)
    reader.system(body)
    shapes = reader.contents(body)
    settings = read_settings(body, places) if body else None
    conversation = Conversation.trusted(reader.canisters)
    if settings is None:
        residue = Residue(NAME, None, None, write_form(shapes)) if shapes else None
        return new_request(conversation, residue=residue, source=NAME)  # type: ignore[no-any-return]
    patch = None if settings.patch is None else write_json(settings.patch)
    form = write_form([*shapes, *settings.shapes])
    residue = None if patch is None and form is None else Residue(NAME, None, patch, form)
    return new_request(  # type: ignore[no-any-return]
        conversation,
        absent,
        settings.tools,
        settings.choice,
        settings.controls,
        absent,
        residue,
        NAME,
    )


class MessageReader:
    """Reads the contents of one body, in order; ``paths`` gets the place of each canister.

    ``model`` is who said what is read, ``stem`` what ids begin with that are made here.
    """

    def __init__(self, paths: list[Path], model: Any = None, stem: str = "call_") -> None:
        self.when = now()
        self.canisters: list[AnyCanister] = []
        self.paths = paths
        self.model = model if type(model) is str else None
        self._stem = stem
        # What the next canister remembers of the content that it opens.
        self._envelope: str | None = None
        self._shape = ""
        self._opened: Steps = ()
        # What made ids have to be different from, as far as it is not read yet.
        self._contents: list[Any] = []
        self._parts: list[Any] = []

    @cached_property
    def _ids(self) -> CallIds:
        """The ids of calls; most bodies have none."""
        return CallIds(self._stem)

    def _made_id(self) -> str:
        """An id for a call that has none."""
        contents, self._contents = self._contents, []
        return self._ids.make([{"parts": self._parts}, *contents] if contents else ())

    def contents(self, body: Object) -> list[str]:
        """All contents of a body; gives the shape that they came in."""
        value = body.pop("contents", MISSING)
        if type(value) is dict:
            self.expect([value])
            self._turn(value, ("contents",), 0)
            return ["content"]
        list_at(value, ("contents",))
        self.expect(value)
        for index, content in enumerate(value):
            self._turn(content, ("contents", index), index)
        return []

    def expect(self, contents: list[Any]) -> None:
        """Make up no id that is given somewhere in these contents."""
        self._contents = contents

    def _turn(self, content: Any, path: Steps, index: int) -> None:
        """One content of a request."""
        if type(content) is not dict:
            object_at(content, path)
        given = content.pop("role", MISSING)
        role = "user"
        if given == "user" or given == "model":  # noqa: PLR1714 - a tuple is slower
            role = given
        elif given is not MISSING and given is not None:
            given = read_role(NAME, given, _ROLES, f"contents.{index}.role")
            role = "model" if given == "model" else "user"
        self.content(content, role, given, path)

    # --- system --------------------------------------------------------------------------------

    def system(self, body: Object) -> None:
        """The system instruction; one that says nothing is left to the residue."""
        key = spelled(body, "systemInstruction")
        value: Any = body.get(key)
        if value is None:
            return
        shapes = [] if key == "systemInstruction" else [key]
        path: Steps = (key,)
        if type(value) is str:
            parts, shape = [{"text": value}], "string"
        elif type(value) is list:
            parts, shape = value, "list"
        elif "parts" not in object_at(value, path) and value.get("text") is not None:
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
            self._part(part, "system", (*path, index) if is_listed else path, joined=index > 0)

    # --- contents ------------------------------------------------------------------------------

    def content(self, content: Object, role: str, given: Any, path: Steps) -> None:
        """One content, of which the role is ``given``: a canister for each part."""
        self._opened = path
        parts = content.pop("parts", MISSING)
        dropped = None
        if given is MISSING:
            dropped = ["role"]
        elif given != role:
            content["role"] = given
        if content or dropped:
            self._envelope = write_json(make_patch(content, dropped))
        place = (*path, "parts")
        if type(parts) is not list or not parts:
            parts, self._shape = self._listed(parts, place)
            if not parts:
                is_user = role == "user"
                said, make = ("", new_user) if is_user else (absent, new_assistant)
                self._add(make(said, self.when, False, self._residue()), path)
            else:
                self._part(parts[0], role, place, joined=False)
            return
        self._parts = parts
        for index, part in enumerate(parts):
            self._part(part, role, (*place, index), joined=index > 0)

    def _listed(self, parts: Any, path: Steps) -> tuple[list[Any], str]:
        """The parts of a content, and their shape where it is not the usual list."""
        if parts is MISSING:
            return [], "absent"
        if parts is None:
            return [], "null"
        if type(parts) is dict:
            return [parts], "object"
        return list_at(parts, path), ("" if parts else "empty")

    def _add(self, canister: AnyCanister, path: Steps) -> None:
        self.canisters.append(canister)
        self.paths.append(path)

    def _residue(
        self, patch: Object | None = None, form: str | None = None, model: str | None = None
    ) -> Residue | None:
        """The residue of the next canister, with what it remembers of the content that it opens."""
        envelope, shape = self._envelope, self._shape
        if envelope is None and not shape:
            if patch is None:
                return None if form is None else Residue(NAME, None, None, form)
            return Residue(NAME, write_json(patch), None, form, model)
        self._envelope, self._shape = None, ""
        if shape:
            form = f"{shape}\n{form}" if form else shape
        part = None if patch is None else write_json(patch)
        return Residue(NAME, part, envelope, form, model)

    def _part(self, part: Any, role: str, path: Steps, *, joined: bool) -> None:
        """One part: the canister of what it says, of a call or of a result."""
        if type(part) is not dict:
            object_at(part, path)
        key, rank = _data_of(part)
        patch: Object | None = None
        model = None
        if rank == _TEXT:
            held: Any = part.pop(key)
            if type(held) is not str:
                text_at(held, (*path, key))
            if part:
                model = self._signer(part)
                held, patch = self._beside(part, held, role)
        elif rank == _RESPONSE and role == "user":
            self._result(part, key, path, joined=joined)
            return
        elif rank == _CALL and role == "model" and _is_call(part[key]):
            self._call(part, key, path, joined=joined)
            return
        else:
            model = self._signer(part)
            held, patch = self._held(part, key, rank, path)
        residue = None
        if patch is not None or self._envelope is not None or self._shape:
            residue = self._residue(patch, None, model)
        self.canisters.append(_SPEAKERS[role](held, self.when, joined, residue))
        self.paths.append(path)

    def _signer(self, part: Object) -> str | None:
        """The model that signed a part, if it is known."""
        return None if self.model is None or get(part, SIGNATURE) is None else self.model

    # --- what is said --------------------------------------------------------------------------

    def _beside(self, part: Object, words: str, role: str) -> tuple[Any, Object | None]:
        """What words say beside which something stands, and the patch of that."""
        if role == "model" and part.get("thought") is True:
            return self._reasoning(part, words)
        return words, {"s": part}

    def _held(self, part: Object, key: str, rank: int, path: Steps) -> tuple[Any, Object | None]:
        """What a part says that is no text, and the patch of what it says beyond that."""
        if rank in (_INLINE, _FILE) and part.get("thought") is not True:
            place = (*path, key)
            holder = object_at(part[key], place)
            media = (read_inline if rank == _INLINE else read_file)(holder, place)
            if media is not None:
                del part[key]
                return media[0], nested_patch(key, _DATA[rank], media[1], part)
        elif rank in (_CALL, _RESPONSE):
            object_at(part[key], (*path, key))
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
        return held, make_patch(part, None, renamed)

    # --- tools ---------------------------------------------------------------------------------

    def _call(self, part: Object, key: str, path: Steps, *, joined: bool) -> None:
        """One call; an id that is not given is made from its place."""
        if not joined:
            # The words of the turn, which are none.
            self._add(new_assistant(absent, self.when, False, self._residue()), self._opened)
        call = part.pop(key)
        name = plain(call.pop("name", MISSING))
        if type(name) is not str or not name:
            text_at(name, (*path, key, "name"))
            fail((*path, key, "name"), "must not be empty")
        identifier = plain(call.pop("id", MISSING))
        dropped = None
        if type(identifier) is not str or not identifier:
            if identifier is MISSING:
                dropped = ["id"]
            else:
                call["id"] = identifier
            identifier = self._made_id()
        self._ids.call(identifier, name, len(self.canisters))
        words = _arguments(call)
        model = self._signer(part)
        patch = nested_patch(key, "functionCall", make_patch(call, dropped), part)
        residue = self._residue(patch, None, model)
        canister = new_invocation(words, self.when, True, residue, None, identifier, name, False)
        self._add(canister, path)

    def _result(self, part: Object, key: str, path: Steps, *, joined: bool) -> None:
        place = (*path, key)
        answer = object_at(part.pop(key), place)
        given = plain(answer.pop("id", MISSING))
        name = plain(answer.pop("name", MISSING))
        shapes: list[str] = []
        if name is MISSING or name is None:
            if given is MISSING or given is None:
                text_at(name, (*place, "name"))
            shapes.append("nameless")
            if name is None:
                answer["name"] = name
            name = None
        elif type(name) is not str:
            text_at(name, (*place, "name"))
        identifier = self._ids.answered(given, name)
        dropped = []
        if given is MISSING:
            dropped.append("id")
        elif given != identifier:
            answer["id"] = given
        held, error, inner = self._answer(answer, place, dropped, shapes)
        patch = make_patch(answer, dropped, None, inner)
        form = write_form(shapes, name)
        model = self._signer(part)
        residue = self._residue(nested_patch(key, "functionResponse", patch, part), form, model)
        canister = new_result(held, self.when, joined, residue, None, identifier, error)
        self._add(canister, path)

    def _answer(
        self, answer: Object, path: Steps, dropped: list[str], shapes: list[str]
    ) -> tuple[Any, Any, Object | None]:
        """What a tool answered, whether it failed, and the patches of what it is made of."""
        given = answer.pop("response", MISSING)
        held: Any = ""
        error: Any = absent
        text = "" if given is MISSING else json_text(given)
        if given is MISSING:
            dropped.append("response")
        elif text[0] == "{":
            held, error = unwrap(text)
            if type(held) is str and text_changes(held, is_failure=error is not absent):
                shapes.append(OUTPUT)
        else:
            answer["response"] = given
            if text != "null":
                held = plain(given) if text[0] == '"' else new_data(text)
        media = answer.get("parts")
        media = plain(media) if type(media) is Raw else whole_value(media)
        if not media and type(media) in (list, type(None)):
            return held, error, None
        listed = [media] if type(media) is dict else media
        list_at(listed, (*path, "parts"))
        first = () if text in ("", "null", "{}") else (_wrapped(held),)
        contents, patches = self._media_of(listed, (*path, "parts"))
        parts = new_parts((*first, *contents))
        if patches is None:
            # Words among the media are read with the response and are not written as they came.
            if given is not MISSING:
                answer["response"] = given
            return parts, error, None
        if listed is not media:
            shapes.append("single")
        del answer["parts"]
        return parts, error, {"parts": {"i": patches}} if patches else None

    def _media_of(self, listed: list[Any], path: Steps) -> tuple[list[Any], Object | None]:
        """The contents beside a response and their patches by position; None for these if there are words."""
        contents: list[Any] = []
        patches: Object | None = {}
        for index, item in enumerate(listed):
            place = (*path, index)
            part = object_at(item, place)
            key, rank = _data_of(part)
            if rank == _TEXT:
                words = text_at(part[key], (*place, key))
                contents.append(new_text(words))
                patches = None
                continue
            held, patch = self._held(part, key, rank, place)
            contents.append(held)
            if patches is not None and patch is not None:
                patches[str(index)] = patch
        return contents, patches


def _data_of(part: Object) -> tuple[str, int]:
    """The key of what a part holds, and its rank in ``_DATA``."""
    key, rank = "", _UNKNOWN
    for name, value in part.items():
        found = _RANKS.get(name, _UNKNOWN)
        if found < rank and value is not None:
            key, rank = name, found
    return key, rank


def _arguments(call: Object) -> str:
    """The argument text of a call, as the body spells it; what is no object is left in the call too."""
    given = call.pop("args", MISSING)
    if given is MISSING:
        return ""
    text = json_text(given)
    if text == "null":
        call["args"] = None
        return ""
    if text[0] != "{":
        call["args"] = given
    elif RAW_ARGUMENTS in text:
        return input_text(plain(given))
    return text


def _is_call(call: Any) -> bool:
    """Whether a call is not only a piece of one, as Vertex streams it; the last piece is empty."""
    if type(call) is not dict:
        return False
    if "name" in call:
        return True
    is_partial = get(call, "partialArgs") is not None or get(call, "willContinue") is not None
    return not is_partial and any(plain(value) is not None for value in call.values())


def _wrapped(held: Any) -> Any:
    return new_text(held) if type(held) is str else held
