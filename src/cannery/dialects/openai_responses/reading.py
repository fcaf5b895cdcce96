"""Reads Responses requests, and the items of requests and responses.

A reader takes the keys that it understands from each object; the rest is the residue, as a patch of the form that the
writer gives (``wire/patches.py``). An item becomes one canister, a message one per part. An item of the model directly
after reasoning, or after an item of an unknown type, is joined to it: they are one turn. Roles are normalized first, so
a client's unusual spelling is not restored.
"""

from __future__ import annotations

from typing import Any, NoReturn

from msgspec.structs import force_setattr

from cannery.dialects.openai_responses.forms import (
    BARE,
    MADE,
    MADE_FORMATS,
    PART,
    after,
    read_citation,
)
from cannery.dialects.openai_responses.settings import NAME, TABLE, open_fields, patch_of, read_tool
from cannery.errors import DialectError
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
    PLAIN,
    Origin,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_refusal,
    new_text,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, new_location
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.bodies import Object, is_named, kind_of, listed_reader, opened
from cannery.wire.call_ids import set_apart
from cannery.wire.controls import take_listed
from cannery.wire.markers import ERROR_PREFIX, read_error_flag
from cannery.wire.media import data_url_patch, is_broken, read_url, sniff, split_data_url
from cannery.wire.places import Path, Places, path_text
from cannery.wire.residues import nested, set_again, take_usual
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["openai"]
_MESSAGE_ROLES = frozenset({"user", "assistant", "system", "developer"})
# Client items, and developer items; all other items are the model's.
_CLIENT_ITEMS = frozenset(
    {
        *("computer_call_output", "local_shell_call_output", "shell_call_output"),
        *("apply_patch_call_output", "mcp_approval_response", "compaction_trigger"),
    }
)
_DEVELOPER_ITEMS = frozenset({"additional_tools", "configuration_update"})
# The second stays on calls that are finished, image included (github.com/Wei-Shaw/sub2api/issues/4051, 2026-07-11).
_MADE_STATES = ("completed", "generating")
_MISSING: Any = object()
# The forms of instructions and of an input that is one string.
_INSTRUCTIONS = Residue(NAME, None, None, "instructions")
_INPUT = Residue(NAME, None, None, "input")
# The residue of a message with an explicit type.
_TYPED = '{"s":{"type":"message"}}'
# A content with the patch that restores the rest of its part.
_Part = tuple[Any, Object | None]


@listed_reader(NAME)
def read_request(fields: Object, places: Places) -> Request:
    """Read the request from a body."""
    given, words = fields.pop("input", _MISSING), fields.get("instructions")
    if type(words) is str and words:
        del fields["instructions"]
    elif words is not None and type(words) is not str:
        fail(("instructions",), f"expected a string, got {kind_of(words)}")
    form = "null" if given is None else "absent" if given is _MISSING else ""
    tools = (*map(read_tool, take_listed(NAME, fields, "tools")),) if "tools" in fields else ()
    settings = TABLE.read(fields, places, tools, (form,) if form else ())
    reader = ItemReader(places.canisters, settings[0])
    if words:
        reader.add(new_supervisor(words, reader.when, False, _INSTRUCTIONS), ("instructions",))
    if type(given) is str:
        reader.add(new_user(given, reader.when, False, _INPUT), ("input",))
    elif not form:
        reader.items(given, "input")
    if reader.made:
        set_apart(reader.canisters, reader.made)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


def fail(path: Path, problem: str) -> NoReturn:
    """Refuse a body."""
    raise DialectError(NAME, path_text(path), problem)


def _text(value: Object, key: str, path: Path) -> str:
    """Take a required string."""
    text = value.pop(key, _MISSING)
    if type(text) is not str:
        problem = "is required" if text is _MISSING else f"expected a string, got {kind_of(text)}"
        fail(path + (key,), problem)
    return text


def _refuse_item(item: Any, path: Path) -> NoReturn:
    fail(path, f"expected an object, got {kind_of(item)}")


def _emptiness(content: Any, path: Path) -> str:
    """The word for a content without text or parts."""
    if content is _MISSING:
        return "absent"
    if content is not None and content != []:
        fail(path, "expected a string or a list of parts")
    return "null" if content is None else "empty"


def _form(*words: str) -> str | None:
    return " ".join(filter(None, words)) or None


def _kept(
    part: str | None, envelope: str | None, form: str | None, cache: str | None = None
) -> Residue | None:
    """The residue of a canister, if there is anything to keep."""
    if part or envelope or form or cache:
        return Residue(NAME, part, envelope, form, None, cache)
    return None


class ItemReader:
    """Reads the items of one body, in order; ``paths`` gets the path of each canister."""

    def __init__(self, paths: list[Path], model: Any = absent, *, is_answer: bool = False) -> None:
        self.canisters: list[AnyCanister] = []
        self.paths = paths
        self.model: str | None = model if type(model) is str else None
        self._is_answer = is_answer
        self.when = now()
        # Positions of calls and results with generated ids.
        self.made: list[int] = []
        # Calls without a call_id: the kind, the id, and whether it was generated. Results of the same kind without one
        # answer them in this order.
        self._unpaired: list[tuple[bool, str, bool]] = []
        self._reasoning_id: str | None = None
        # Whether the last item is the model's, and no target could send it as a turn of its own.
        self._is_lone = False

    def add(self, canister: AnyCanister, path: Path) -> None:
        """Add a canister that was found at a path."""
        self.canisters.append(canister)
        self.paths.append(path)

    def items(self, given: Any, key: str) -> None:
        """All items of a list."""
        if type(given) is not list:
            fail((key,), f"expected a list, got {kind_of(given)}")
        for index, item in enumerate(given):
            path = (key, index)
            if type(item) is not dict:
                _refuse_item(item, path)
            self._item(item, path)

    def item(self, item: Object, path: Path) -> list[AnyCanister]:
        """Read one item; returns its canisters."""
        start = len(self.canisters)
        self._item(item, path)
        return self.canisters[start:]

    def _item(self, item: Object, path: Path) -> None:
        kind = item.get("type")
        if kind is None and "role" in item:
            kind = "message"
        read = _ITEMS.get(kind) if type(kind) is str else None
        if read is None:
            self._other(item, kind, path)
        else:
            read(self, item, path)

    def _follow(self, *, is_lone: bool = False) -> bool:
        """Whether an item of the model is joined to the item before it; preceding reasoning records this."""
        is_joined, self._is_lone = self._is_lone, is_lone
        if is_joined:
            before = self.canisters[-1]
            if before.held.kind == "reasoning":
                old: Any = before.residue
                words = f"{old.form} followed" if old.form else "followed"
                residue = Residue(NAME, old.part, None, words, old.model)
                force_setattr(before, "residue", residue)
        return is_joined

    def _end_turn(self) -> None:
        """End the turn: the model's next item does not belong to the items before."""
        self._is_lone = False
        self._reasoning_id = None

    def _other(self, item: Object, kind: Any, path: Path) -> None:
        """An item of any other type, kept exactly."""
        if kind is None and type(item.get("id")) is str:
            kind = "item_reference"
        if type(kind) is not str:
            fail(path + ("type",), "is required" if kind is None else "expected a string")
        held = new_opaque(NAME, kind, write_json(open_fields(item)))
        if kind in _CLIENT_ITEMS:
            self._end_turn()
            self.add(new_user(held, self.when), path)
        elif kind in _DEVELOPER_ITEMS:
            self._end_turn()
            self.add(new_supervisor(held, self.when, False, None, None, "developer"), path)
        else:
            joined = self._follow(is_lone=True)
            self.add(new_assistant(held, self.when, joined), path)

    def message(self, item: Object, path: Path) -> None:
        role = item.pop("role", _MISSING)
        if type(role) is not str or role not in _MESSAGE_ROLES:
            role = _other_role(role, path)
        joined, mark = False, ""
        if role == "assistant":
            joined = self._is_lone and self._follow()
            mark = after(self._reasoning_id)
        else:
            self._is_lone, self._reasoning_id = False, None
        content = item.pop("content", _MISSING)
        if type(content) is str and not (item or mark or self._is_answer):
            self._say(role, content, joined, None, path + ("content",))
            return
        envelope = None
        if item:
            is_usual = len(item) == 1 and item.get("type") == "message"
            envelope = _TYPED if is_usual else patch_of(item)
        place: Path = path + ("content",)
        if type(content) is str:
            held, form = content, mark or None
        elif type(content) is list and content:
            self._parts(content, role, (joined, mark, envelope), place)
            return
        else:
            held, form = "", _form(_emptiness(content, place), mark)
            place = path if content is _MISSING else place
        if self._is_answer and not (envelope or form):
            form = BARE
        residue = _kept(None, envelope, form) if envelope or form else None
        self._say(role, held, joined, residue, place)

    def _say(self, role: str, held: Any, joined: bool, residue: Any, path: Path) -> None:  # noqa: FBT001 - as the makers
        """Add the canister of a role's content."""
        if role == "user":
            canister = new_user(held, self.when, joined, residue)
        elif role == "assistant":
            canister = new_assistant(held, self.when, joined, residue)
        else:
            canister = new_supervisor(held, self.when, joined, residue, None, role)
        self.canisters.append(canister)
        self.paths.append(path)

    def _parts(
        self, content: list[Any], role: str, shared: tuple[bool, str, str | None], path: Path
    ) -> None:
        """A canister for each part of a message; the first holds what belongs to the whole message."""
        joined, mark, envelope = shared
        is_output = role == "assistant"
        word = "list" if is_output or _is_one_text(content) else ""
        for index, part in enumerate(content):
            place = path + (index,)
            if type(part) is not dict:
                _refuse_item(part, place)
            held, patch = read_part(part, place, is_output)
            form = word
            if type(held) is not str and (
                held.kind == "opaque" or (is_output and held.kind == "image")
            ):
                form = f"{form} {PART}".lstrip()
            if mark:
                form = f"{form} {mark}".lstrip()
            if self._is_answer and not (index or envelope or form):
                form = BARE
            residue = None
            if patch is not None or envelope or form or part:
                text = None if patch is None else write_json(patch)
                residue = _kept(text, envelope, form or None, cache_mark(part))
            self._say(role, held, joined, residue, place)
            joined, envelope = True, None

    def call(self, item: Object, path: Path) -> None:
        is_freeform = item.pop("type") == "custom_tool_call"
        joined = self._is_lone and self._follow()
        key = "input" if is_freeform else "arguments"
        name = _text(item, "name", path)
        identifier, dropped = self._call_id(item, is_custom=is_freeform)
        arguments, inner = item.get(key, _MISSING), None
        if type(arguments) is str:
            del item[key]
        elif arguments is _MISSING or arguments is None:
            dropped += [] if arguments is None else [key]
            arguments = ""
        else:
            arguments, inner = write_json(opened(item.pop(key))), {key: {"j": True}}
        patch = patch_of(item, dropped, inner) if item or dropped or inner else None
        form = after(self._reasoning_id) or None
        if self._is_answer and not (patch or form):
            form = BARE
        residue = Residue(NAME, patch, None, form) if patch or form else None
        self.canisters.append(
            new_invocation(
                arguments, self.when, joined, residue, None, identifier, name, is_freeform
            )
        )
        self.paths.append(path)

    def _call_id(
        self, item: Object, *, is_custom: bool, answers: bool = False
    ) -> tuple[str, list[str]]:
        """Take the id that pairs calls and results; a generated one replaces a missing id."""
        identifier = item.get("call_id")
        if type(identifier) is str and identifier:
            del item["call_id"]
            return identifier, []
        known = item.get("id") or ""
        is_made = type(known) is not str or not known
        if is_made:
            known = f"call_{len(self.canisters)}"
        if not answers:
            self._unpaired.append((is_custom, known, is_made))
        else:
            call = next((each for each in self._unpaired if each[0] is is_custom), None)
            if call is not None:
                self._unpaired.remove(call)
                _, known, is_made = call
        if is_made:
            self.made.append(len(self.canisters))
        return known, [] if "call_id" in item else ["call_id"]

    def result(self, item: Object, path: Path) -> None:
        is_custom = item.pop("type") == "custom_tool_call_output"
        self._end_turn()
        identifier, dropped = self._call_id(item, is_custom=is_custom, answers=True)
        output = item.get("output", _MISSING)
        held, word, cache, inner = "", "", None, None
        if type(output) is str:
            held = item.pop("output")
        elif type(output) is list:
            del item["output"]
            cache = next(filter(None, map(cache_mark, reversed(output))), None)
            held, inner = _result_parts(output, path + ("output",))
            word = "empty" if not output else "list" if type(held) is str else ""
        elif output is _MISSING:
            word = "absent"
        elif output is not None:
            fail(path + ("output",), "expected a string or a list of parts")
        held, error = _unflagged(held)
        if error is True and output == ERROR_PREFIX:
            item["output"] = output
        envelope = patch = None
        if item and type(item.get("name")) is str:
            # The name repeats the call's, so it is no loss for targets whose results have no names.
            envelope = write_json({"s": {"name": item.pop("name")}})
        if item or dropped or inner:
            patch = patch_of(item, dropped, None if inner is None else {"output": {"i": inner}})
        form = _form("custom", word) if is_custom else word or None
        residue = None
        if patch or envelope or form or cache:
            residue = Residue(NAME, patch, envelope, form, None, cache)
        self.canisters.append(new_result(held, self.when, False, residue, None, identifier, error))
        self.paths.append(path)

    def reasoning(self, item: Object, path: Path) -> None:
        joined = self._follow(is_lone=True)
        del item["type"]
        identifier, encrypted = item.get("id"), item.get("encrypted_content")
        if type(encrypted) is str and encrypted:
            del item["encrypted_content"]
        else:
            encrypted = None
        dropped = [] if "summary" in item else ["summary"]
        inner: Object = {}
        texts = _texts(item, "content", "reasoning_text", inner)
        summaries = _texts(item, "summary", "summary_text", inner)
        held = new_reasoning(texts, summaries, None, encrypted, Origin(NAME, self.model))
        self._reasoning_id = identifier if type(identifier) is str and identifier else None
        form = None if self._reasoning_id else BARE
        if self._is_answer and encrypted is None:
            form = _form(form or "", "answered")
        residue = Residue(NAME, patch_of(item, dropped, inner), None, form, self.model)
        self.add(new_assistant(held, self.when, joined, residue), path)

    def image(self, item: Object, path: Path) -> None:
        """The call that generated an image; without an image that can be shown it is like any other item."""
        made = _made(item)
        if made is None:
            self._other(item, item["type"], path)
            return
        joined = self._follow(is_lone=True)
        del item["type"], item["result"]
        if item["status"] == "completed":
            del item["status"]
        dropped = [] if "output_format" in item else ["output_format"]
        if type(item.get("output_format")) is str:
            del item["output_format"]
        residue = Residue(NAME, patch_of(item, dropped), None, MADE)
        self.add(new_assistant(made, self.when, joined, residue), path)


_ITEMS = {
    "message": ItemReader.message,
    "function_call": ItemReader.call,
    "custom_tool_call": ItemReader.call,
    "function_call_output": ItemReader.result,
    "custom_tool_call_output": ItemReader.result,
    "reasoning": ItemReader.reasoning,
    "image_generation_call": ItemReader.image,
}


def _is_one_text(content: list[Any]) -> bool:
    """Whether a list holds only what a string can express."""
    only = content[0] if len(content) == 1 else None
    return type(only) is dict and only.get("type") == "input_text"


def _other_role(role: Any, path: Path) -> str:
    """The role of a message with an unusual spelling."""
    if role is _MISSING:
        fail(path + ("role",), "is required")
    found = read_role(NAME, role, _ROLES, ".".join(map(str, path + ("role",))))
    if found not in _MESSAGE_ROLES:
        fail(path + ("role",), f"a message has no role {found!r}")
    return found


def read_part(part: Object, path: Path, is_output: bool) -> _Part:  # noqa: FBT001 - one signature for all parts
    """The content of one part, and the patch for the rest; ``is_output`` if the writer gives ``output_text``."""
    kind = part.get("type")
    if type(kind) is not str:
        fail(path + ("type",), "expected a string")
    read = _PARTS.get(kind)
    if read is None:
        return new_opaque(NAME, kind, write_json(part)), None
    return read(part, path, is_output)


def _read_input_text(part: Object, path: Path, is_output: bool) -> _Part:  # noqa: FBT001 - one signature for all parts
    text = _text(part, "text", path)
    if is_output:
        return text, {"s": part} if "annotations" in part else {"s": part, "x": ["annotations"]}
    del part["type"]
    return text, set_again(part)


def _read_output_text(part: Object, path: Path, is_output: bool) -> _Part:  # noqa: FBT001
    text = _text(part, "text", path)
    annotations = part.get("annotations", _MISSING)
    if type(annotations) is list and annotations:
        del part["type"], part["annotations"]
        citations = tuple(map(read_citation, annotations))
        return new_text(text, PLAIN, citations), set_again(part)
    if not is_output:
        return text, {"s": part}
    del part["type"]
    dropped: list[str] = []
    take_usual(part, "annotations", [], dropped)
    return text, nested(part, {}, dropped)


def _read_refusal(part: Object, path: Path, _: bool) -> _Part:  # noqa: FBT001
    text = _text(part, "refusal", path)
    del part["type"]
    return new_refusal(text), set_again(part)


def _read_image(part: Object, _: Path, __: bool) -> _Part:  # noqa: FBT001
    url, identifier = part.get("image_url"), part.get("file_id")
    spelling: Object | None = None
    if is_named(url):
        del part["image_url"]
        payload, mime_type, spelling = read_url(url)
        held = new_image(payload, mime_type)
    elif is_named(identifier):
        held = new_image(new_location("file", part.pop("file_id")), "")
    else:
        return new_opaque(NAME, "input_image", write_json(part)), None
    del part["type"]
    dropped: list[str] = []
    take_usual(part, "detail", "auto", dropped)
    return held, nested(part, {"image_url": spelling}, dropped)


def _read_file(part: Object, _: Path, __: bool) -> _Part:  # noqa: FBT001
    data, spelling = part.get("file_data"), None
    if type(data) is str:
        del part["file_data"]
        mime_type, payload = split_data_url(data) or ("application/pdf", Base64(data))
        spelling = data_url_patch(data, mime_type, payload)
        source = (payload, mime_type)
    elif is_named(part.get("file_url")):
        source = (new_location("url", part.pop("file_url")), "")
    elif is_named(part.get("file_id")):
        source = (new_location("file", part.pop("file_id")), "")
    else:
        return new_opaque(NAME, "input_file", write_json(part)), None
    del part["type"]
    name = part.pop("filename") if type(part.get("filename")) is str else None
    return new_file(*source, name), nested(part, {"file_data": spelling})


_PARTS = {
    "input_text": _read_input_text,
    "output_text": _read_output_text,
    "refusal": _read_refusal,
    "input_image": _read_image,
    "input_file": _read_file,
}


def _result_parts(output: list[Any], path: Path) -> tuple[Any, Object | None]:
    """The contents of a tool's output, and the patches of its parts by position."""
    contents = []
    patches: Object = {}
    for index, part in enumerate(output):
        if type(part) is not dict:
            _refuse_item(part, path + (index,))
        held, patch = read_part(part, path + (index,), False)
        contents.append(held)
        if patch is not None:
            patches[str(index)] = patch
    if not contents:
        return "", None
    held = contents[0]
    text = held if type(held) is str else held.text if held.kind == "text" else ""
    if text == ERROR_PREFIX:
        # The writer would omit the space at its end.
        patches.setdefault("0", {}).setdefault("s", {})["text"] = text
    if len(contents) > 1 or type(held) is not str:
        held = new_parts(tuple(new_text(one) if type(one) is str else one for one in contents))
    return held, patches or None


def _unflagged(held: Any) -> tuple[Any, Any]:
    """A result without the text mark of a failed tool, and whether the mark was there."""
    if type(held) is str:
        words = read_error_flag(held)
        return (held, absent) if words is None else (words, True)
    first = held.parts[0]
    words = read_error_flag(first.text) if first.kind == "text" else None
    if words is None:
        return held, absent
    rest = new_text(words, first.mime_type, first.citations)
    return new_parts((rest, *held.parts[1:])), True


def _texts(item: Object, key: str, kind: str, inner: Object) -> tuple[str, ...]:
    """Take the texts of reasoning, with the patches of their parts; a list with other parts too stays as well."""
    parts = item.get(key)
    if type(parts) is not list:
        return ()
    texts = []
    patches: Object = {}
    for index, part in enumerate(parts):
        if type(part) is dict and part.get("type") == kind and type(part.get("text")) is str:
            texts.append(part["text"])
            if len(part) > 2:
                rest = {name: part[name] for name in part if name not in ("type", "text")}
                patches[str(index)] = {"s": rest}
    if len(texts) == len(parts) and (parts or key == "summary"):
        del item[key]
        if patches:
            inner[key] = {"i": patches}
    return tuple(texts)


def _made(item: Object) -> Any:
    """The image that a call generated; None if there is none, or none that can be shown."""
    result, word = item.get("result"), item.get("output_format")
    if type(result) is not str or not result or item.get("status") not in _MADE_STATES:
        return None
    payload = Base64(result)
    mime_type = MADE_FORMATS.get(word) if type(word) is str else None
    if word is None:
        seen = sniff(payload)
        mime_type = seen if seen in MADE_FORMATS.values() else MADE_FORMATS["png"]
    image = None if mime_type is None else new_image(payload, mime_type)
    return None if image is None or is_broken(image) else image
