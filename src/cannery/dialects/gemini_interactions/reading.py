"""Reads Interactions requests, and the steps of requests and responses.

A step becomes one canister, but ``user_input`` and ``model_output`` become one for each content, joined. Consecutive
steps of the model are one turn, so they are joined too. The reader takes the keys that it understands out of each
object; the rest is the residue. An input may also be a string, one content, a list of contents, or a list of turns
(``role`` and ``content``), as clients sent it before steps existed. The words of a form are:

``input`` (the whole input was this string), ``content`` (it was this one content), ``bare`` (a content directly in the
input), ``turn`` and ``within`` (opens a turn, or is inside one), ``opens`` (opens a ``model_output`` after another),
``string``, ``single``, ``empty``, ``null``, ``absent`` (the shape of a step's contents), ``list`` (a result that was a
list of one text), ``part`` (an unknown content, not a step), ``instructions``, and of a request ``mixed``.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec
from msgspec import Raw

from cannery.dialects.gemini_interactions.settings import NAME, TABLE, take_tools
from cannery.families.gemini.reading import MISSING, characters, checks, located
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
    PLAIN,
    Citation,
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
from cannery.roles.vocabularies import GEMINI
from cannery.wire.arguments import argument_text, unwrapped_input
from cannery.wire.bodies import (
    Fields,
    Object,
    decode,
    decoded,
    encode,
    fields_reader,
    is_named,
    is_text_part,
    kind_of,
    spelled_text,
)
from cannery.wire.call_ids import set_apart
from cannery.wire.controls import text
from cannery.wire.places import Path, Places, path_text
from cannery.wire.residues import nested, respelled, set_again
from cannery.wire.turns import MODEL, SIDES
from cannery.wire.wire_roles import read_role

_Item = Union[dict[str, Raw], str, bool, int, float, list[Any], None]  # noqa: UP007 - msgspec
_Steps = Union[list[_Item], dict[str, Raw], str, bool, int, float, None]  # noqa: UP007 - msgspec
split_steps = msgspec.json.Decoder(_Steps).decode

_MEDIA = {"image": new_image, "audio": new_audio, "video": new_video, "document": new_file}
CONTENTS = frozenset({"text", *_MEDIA})
_CLIENT_STEPS = frozenset({"user_input", "function_result"})
_TOOLS = (
    *("code_execution", "file_search", "google_maps", "google_search", "mcp_server_tool"),
    *("processing", "retrieval", "url_context"),
)
# The steps of tools that Google runs are kept exactly, and so are unknown steps.
_STEPS = frozenset(
    {
        *("user_input", "model_output", "thought", "function_call", "function_result"),
        *(f"{tool}_{side}" for tool in _TOOLS for side in ("call", "result")),
    }
)
fail, _expect = checks(NAME)
_INSTRUCTIONS = Residue(NAME, None, None, "instructions")
_INPUT = Residue(NAME, None, None, "input")
# A content, with the patch that restores the rest of it.
_Read = tuple[Any, Object | None]


@fields_reader(NAME)
def read_request(fields: Fields, places: Places) -> Request:
    """Read the request from a body."""
    given = split_steps(fields.pop("input")) if "input" in fields else MISSING
    tools = take_tools(fields) if "tools" in fields else ()
    body = {key: decode(field) for key, field in fields.items()}
    reader = StepReader(places.canisters, text(body.get("model")))
    words = body.get("system_instruction")
    if type(words) is str and words:
        del body["system_instruction"]
        said = new_supervisor(words, reader.when, False, _INSTRUCTIONS)
        reader.add(said, ("system_instruction",))
    elif words is not None and type(words) is not str:
        fail(("system_instruction",), f"expected a string, got {kind_of(words)}")
    form = reader.input(given)
    settings = TABLE.read(body, places, tools, (form,) if form else ())
    if reader.made:
        set_apart(reader.canisters, reader.made)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


def _form(*words: str) -> str | None:
    return " ".join(filter(None, words)) or None


def _kept(
    part: Object | None, envelope: Object | None, form: str | None, model: str | None = None
) -> Residue | None:
    """The residue of a canister, if there is anything to keep; ``model`` produced its signature."""
    if part is None and envelope is None and form is None:
        return None
    text = None if part is None else write_json(part)
    around = None if envelope is None else write_json(envelope)
    return Residue(NAME, text, around, form, model)


class StepReader:
    """Reads the steps of one body, in order; ``paths`` gets the path of each canister."""

    def __init__(self, paths: list[Path], model: Any = absent, *, is_answer: bool = False) -> None:
        self.canisters: list[AnyCanister] = []
        self.paths = paths
        self.when = now()
        self._model: str | None = model if type(model) is str else None
        self._is_answer = is_answer
        self._is_of_model = False
        # Whether the last canister is a content of a ``model_output``.
        self._is_output = False
        # Positions of calls and results with generated ids.
        self.made: list[int] = []
        self._called: set[str] = set()
        # The names of unanswered calls, by id and whether the id was generated.
        self._waiting: dict[tuple[str, bool], str] = {}
        # The word for the step's location: in a turn or directly in the input.
        self._word = ""

    def add(self, canister: AnyCanister, path: Path) -> None:
        """Add a canister that was found at a path."""
        self.canisters.append(canister)
        self.paths.append(path)

    def input(self, given: Any) -> str | None:
        """Read the input of a request; the word for its shape, if it is not a list of steps."""
        if given is MISSING or given is None:
            return "absent" if given is MISSING else "null"
        if type(given) is str:
            self.add(new_user(given, self.when, False, _INPUT), ("input",))
            return None
        if type(given) is dict:
            self._say([decoded(given)], "user", ("input",), None, "content")
            return None
        return self.steps(given, "input")

    def steps(self, given: Any, key: str) -> str | None:
        """Read all steps of a list; contents among them are a user's."""
        items = _expect(list, given, (key,))
        told = []
        for index, item in enumerate(items):
            if type(item) is not dict:
                _expect(dict, item, (key, index))
            told.append(decode(item["type"]) if "type" in item else None)
        kinds = [kind if type(kind) is str else "" for kind in told]
        if not _STEPS.isdisjoint(kinds) and CONTENTS.isdisjoint(kinds):
            # Beside known steps, an unknown item is a step.
            is_bare = [False] * len(items)
        else:
            is_bare = [
                kind in CONTENTS or (kind not in _STEPS and "role" not in item)
                for kind, item in zip(kinds, items, strict=True)
            ]
        for index, item in enumerate(items):
            if is_bare[index]:
                joined = index > 0 and is_bare[index - 1]
                self._content(decoded(item), "user", (key, index), None, "bare", joined=joined)
            else:
                self.step(item, (key, index), told[index])
        return "mixed" if any(is_bare) and not all(is_bare) else None

    def answer(self, given: Any, key: str) -> None:
        """Read all steps of a response; older ones list contents of the model."""
        for index, entry in enumerate(_expect(list, given, (key,))):
            item = _expect(dict, entry, (key, index))
            kind = _kind(item)
            if type(kind) is str and kind in CONTENTS:
                self._content(decoded(item), "model", (key, index), None, "bare", joined=index > 0)
            else:
                self.step(item, (key, index), kind)

    def step(self, item: Object, path: Path, kind: Any) -> None:
        """Read one step by its kind."""
        if kind is None and "role" in item:
            self._turn(item, path)
            return
        if type(kind) is not str:
            fail((*path, "type"), "is required" if kind is None else "expected a string")
        if self._is_answer and kind in _CLIENT_STEPS:
            kind = ""
        if kind == "user_input" or kind == "model_output":  # noqa: PLR1714 - a tuple is slower
            del item["type"]
            role = "user" if kind == "user_input" else "model"
            contents, shape = self._contents(item, path)
            place = (*path, "content")
            self._say(contents, role, place, set_again(decoded(item)) if item else None, shape)
        elif kind in _READERS:
            del item["type"]
            _READERS[kind](self, item, path)
        else:
            step = decoded(item)
            held = new_opaque(NAME, str(step["type"]), write_json(step))
            residue = Residue(NAME, None, None, self._take_word()) if self._word else None
            self.add(new_assistant(held, self.when, self._follow("model"), residue), path)

    def _follow(self, role: str, *, is_output: bool = False) -> bool:
        """Whether a step of the model is joined to the one before it."""
        is_joined = role == "model" and self._is_of_model
        self._is_of_model, self._is_output = role == "model", is_output
        return is_joined

    def _take_word(self) -> str:
        """Take the word for a canister in a turn; only the first opens it."""
        word = self._word
        if word == "turn":
            self._word = "within"
        return word

    def _contents(self, item: Object, path: Path) -> tuple[list[Any], str]:
        """Take the contents of a step, and the word for their shape if it is not a list of several."""
        place = (*path, "content")
        value = decode(item.pop("content")) if "content" in item else MISSING
        if value is MISSING or value is None:
            return [], "absent" if value is MISSING else "null"
        if type(value) is str:
            return [{"type": "text", "text": value}], "string"
        if type(value) is dict:
            return [value], "single"
        return _expect(list, value, place), "" if value else "empty"

    def _say(
        self, contents: list[Any], role: str, path: Path, envelope: Object | None, shape: str
    ) -> None:
        """Add a canister for each content of a step; the first holds what belongs to the whole step."""
        is_whole = shape in ("content", "string", "single")
        opens = "opens" if role == "model" and self._is_output else ""
        if not contents:
            joined = self._follow(role, is_output=True)
            residue = _kept(None, envelope, _form(self._take_word(), opens, shape))
            make, said = (new_user, "") if role == "user" else (new_assistant, absent)
            place = path[:-1] if shape == "absent" else path
            self.add(make(said, self.when, joined, residue), place)
        for index, content in enumerate(contents):
            place = path if is_whole else (*path, index)
            value = content if type(content) is dict else _expect(dict, content, place)
            words = ""
            if self._word or opens or shape:
                words = " ".join(filter(None, (self._take_word(), opens, shape)))
            self._content(value, role, place, envelope, words, joined=index > 0)
            envelope, opens = None, ""

    def _content(
        self,
        content: Object,
        role: str,
        path: Path,
        envelope: Object | None,
        words: str,
        *,
        joined: bool,
    ) -> None:
        held, patch = read_content(content, path)
        if type(held) is not str and held.kind == "opaque":
            words = f"{words} part".lstrip()
        joined = self._follow(role, is_output=True) or joined
        make = new_user if role == "user" else new_assistant
        residue = None
        if words or patch is not None or envelope is not None:
            residue = _kept(patch, envelope, words or None)
        self.canisters.append(make(held, self.when, joined, residue))
        self.paths.append(path)

    def _turn(self, item: Object, path: Path) -> None:
        """Read a turn: a role and its contents, which may include items that are separate steps today."""
        given = decode(item.pop("role"))
        spelled = read_role(NAME, given, GEMINI, path_text((*path, "role")))
        role = "model" if spelled == "model" else "user"
        contents, shape = self._contents(item, path)
        left = decoded(item)
        self._word = "turn"
        place = (*path, "content")
        start = len(self.canisters)
        if shape or not contents:
            self._say(contents, role, place, None, shape)
            contents = []
        for index, content in enumerate(contents):
            value = _expect(dict, content, (*place, index))
            kind = value.get("type")
            if type(kind) is str and kind in _STEPS:
                step = {key: Raw(encode(held)) for key, held in value.items()}
                self.step(step, (*place, index), kind)
            else:
                words = self._take_word()
                self._content(value, role, (*place, index), None, words, joined=index > 0)
        self._word = ""
        first = self.canisters[start]
        if spelled != role or (SIDES[type(first)] is MODEL) != (role == "model"):
            left["role"] = spelled
        envelope = set_again(left)
        if envelope is not None:
            # The first canister holds what belongs to the whole turn, whatever its kind.
            residue = first.residue or Residue(NAME)
            residue = msgspec.structs.replace(residue, envelope=write_json(envelope))
            msgspec.structs.force_setattr(first, "residue", residue)

    # --- steps ---------------------------------------------------------------------------------

    def thought(self, item: Object, path: Path) -> None:
        """A thought: its summary and its signature."""
        step = decoded(item)
        signature, summary = step.get("signature"), step.get("summary")
        if type(signature) is str and signature:
            del step["signature"]
        else:
            signature = None
        inner: Object = {}
        texts: tuple[str, ...] = ()
        if type(summary) is list and summary and all(map(is_text_part, summary)):
            texts = tuple(part["text"] for part in summary)
            patches = {
                str(index): {"s": {key: part[key] for key in part if key not in ("type", "text")}}
                for index, part in enumerate(summary)
                if len(part) > 2
            }
            inner["summary"] = {"i": patches} if patches else None
            del step["summary"]
        elif type(summary) is list:
            texts = tuple(part["text"] for part in summary if is_text_part(part))
        held = new_reasoning((), texts, signature, None, Origin(NAME, self._model))
        residue = _kept(nested(step, inner), None, _form(self._take_word()))
        self.add(new_assistant(held, self.when, self._follow("model"), residue), path)

    def call(self, item: Object, path: Path) -> None:
        """A call of a function."""
        dropped: list[str] = []
        left: Object = {}
        identifier, name = _take(item, "id"), _take(item, "name")
        is_made = type(identifier) is not str or not identifier
        if is_made:
            if identifier is MISSING:
                dropped.append("id")
            else:
                left["id"] = identifier
            identifier = f"call_{len(self.canisters)}"
            self.made.append(len(self.canisters))
        if type(name) is not str:
            _expect(str, name, (*path, "name"))
        if not name:
            fail((*path, "name"), "must not be empty")
        words, spelling = self._arguments(item, dropped)
        self._called.add(identifier)
        self._waiting[identifier, is_made] = name
        signer = self._model if "signature" in item else None
        patch = None
        if left or item or dropped or spelling:
            patch = respelled(nested({**left, **decoded(item)}, {}, dropped), spelling)
        residue = None
        if patch is not None or self._word:
            residue = _kept(patch, None, _form(self._take_word()), signer)
        own = (identifier, name, False)
        joined = self._follow("model")
        self.add(new_invocation(words, self.when, joined, residue, None, *own), path)

    def _arguments(self, item: Object, dropped: list[str]) -> tuple[str, Object]:
        """Take the arguments of a call as they are spelled, and the spelling of a value that is not an object."""
        if "arguments" not in item:
            dropped.append("arguments")
            return "", {}
        given = item.pop("arguments")
        text = spelled_text(given)
        if text[:1] == "{":
            return unwrapped_input(text), {}
        value = decode(given)
        return argument_text(value), {"arguments": value}

    def result(self, item: Object, path: Path) -> None:
        """Read the result of a function."""
        step = {key: decode(item[key]) for key in item if key != "result"}
        dropped: list[str] = []
        given, name = step.pop("call_id", MISSING), step.get("name", MISSING)
        if type(given) is str and given:
            call = (given, False)
        else:
            dropped += ["call_id"] if given is MISSING else []
            step |= {} if given is MISSING else {"call_id": given}
            fitting = (one for one, named in self._waiting.items() if name in (MISSING, named))
            call = next(fitting, (f"call_{len(self.canisters)}", True))
        self._waiting.pop(call, None)
        identifier, is_made = call
        if is_made:
            self.made.append(len(self.canisters))
        if name is MISSING and identifier in self._called:
            dropped.append("name")
        error: Any = absent
        if step.get("is_error") is True:
            del step["is_error"]
            error = True
        held, word, inner = _read_result(item.get("result", MISSING), (*path, "result"))
        patch = nested(step, inner, dropped) if step or inner or dropped else None
        residue = None
        if patch is not None or self._word or word:
            residue = _kept(patch, None, _form(self._take_word(), word))
        self._follow("user")
        own = (identifier, error)
        self.add(new_result(held, self.when, False, residue, None, *own), path)


_READERS = {
    "thought": StepReader.thought,
    "function_call": StepReader.call,
    "function_result": StepReader.result,
}


def _kind(item: Object) -> Any:
    return decode(item["type"]) if "type" in item else None


def _take(item: Object, key: str) -> Any:
    return decode(item.pop(key)) if key in item else MISSING


def _read_result(given: Any, path: Path) -> tuple[Any, str, Object]:
    """The contents of a tool result, the word for its shape, and the patches of its contents."""
    if given is MISSING:
        return "", "absent", {}
    value = decode(given)
    if value is None or type(value) is str:
        return value or "", "null" if value is None else "", {}
    if type(value) is not list or not all(map(_is_content, value)):
        return new_data(spelled_text(given)), "", {}
    if not value:
        return "", "empty", {}
    found = [read_content(part, (*path, index)) for index, part in enumerate(value)]
    patches = {str(index): patch for index, (_, patch) in enumerate(found) if patch is not None}
    inner: Object = {"result": {"i": patches}} if patches else {}
    held = found[0][0]
    if len(found) == 1 and type(held) is str:
        return held, "list", inner
    contents = (new_text(held) if type(held) is str else held for held, _ in found)
    return new_parts(tuple(contents)), "", inner


def _is_content(part: Any) -> bool:
    return type(part) is dict and type(part.get("type")) is str


def read_content(content: Object, path: Path) -> _Read:
    """One content, and the patch for the rest of it."""
    kind = content.get("type", MISSING)
    if type(kind) is not str:
        fail((*path, "type"), "is required" if kind is MISSING else "expected a string")
    if kind == "text":
        return _read_text(content, path)
    if kind in _MEDIA:
        return _read_media(content, kind)
    return new_opaque(NAME, kind, write_json(content)), None


def _read_text(content: Object, path: Path) -> _Read:
    text = content.pop("text", MISSING)
    if type(text) is not str:
        _expect(str, text, (*path, "text"))
    del content["type"]
    if not content:
        return text, None
    annotations = content.get("annotations")
    if type(annotations) is list and annotations:
        del content["annotations"]
        cited = tuple(read_citation(item, text) for item in annotations)
        return new_text(text, PLAIN, cited), set_again(content)
    return text, set_again(content)


def _read_media(content: Object, kind: str) -> _Read:
    """Inline data or a location; a medium with neither is kept exactly."""
    data, uri, mime_type = content.get("data"), content.get("uri"), content.get("mime_type")
    payload: Any
    if type(data) is str:
        payload = Base64(data)
        del content["data"]
    elif is_named(uri):
        payload = located(uri)
        del content["uri"]
    else:
        return new_opaque(NAME, kind, write_json(content)), None
    del content["type"]
    if type(mime_type) is str and mime_type:
        del content["mime_type"]
    else:
        mime_type = ""
    return _MEDIA[kind](payload, mime_type), set_again(content)


def read_citation(item: Any, text: str) -> Citation:
    """An annotation; if it points to a page, in terms that every dialect understands. Spans count bytes."""
    raw = write_json(item)
    if type(item) is not dict:
        return Citation(NAME, raw)
    url, title = item.get("url", item.get("document_uri")), item.get("title", item.get("file_name"))
    start, end = item.get("start_index"), item.get("end_index")
    has_span = type(end) is int and (start is None or type(start) is int)
    data = text.encode() if has_span else b""
    return Citation(
        NAME,
        raw,
        url if is_named(url) else None,
        title if type(title) is str else None,
        None,
        characters(data, start or 0) if has_span else None,
        characters(data, end) if has_span else None,
    )
