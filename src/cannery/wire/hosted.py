"""Tables for a dialect's hosted tools: they map its shapes to the common meaning and back.

There is one table per dialect (``Dialect.hosted``) and none per pair: any dialect writes from the terms of
``cannery.messages.hosted`` that another one reads. Reading takes what it understands out of a decoded object; the
rest is lost for another dialect. A tool that the client itself runs has no meaning beyond its schema: for another
dialect it is a function, and its calls are ordinary calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from cannery.messages.hosted import (
    Fetch,
    FileQuery,
    HostedResult,
    HostedTool,
    HostedUse,
    McpCall,
    Output,
    Run,
    Search,
    Sources,
    UserLocation,
)
from cannery.messages.requests import Tool
from cannery.wire.bodies import Object
from cannery.wire.places import key_text, last_key
from cannery.wire.residues import Left

# --- definitions -------------------------------------------------------------------------------


class Form(Struct, frozen=True, gc=False):
    """The spelling of one fact of a definition; ``read`` gives None for a value that it does not understand."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _texts(value: Any) -> tuple[str, ...] | None:
    is_texts = type(value) is list and value and all(type(item) is str for item in value)
    return tuple(value) if is_texts else None


_PLACES = UserLocation.__struct_fields__


def _read_location(value: Any) -> UserLocation | None:
    """Take the user's location; other fields beside it stay."""
    if type(value) is not dict:
        return None
    known = {key: value[key] for key in _PLACES if type(value.get(key)) is str}
    for key in known:
        del value[key]
    if value.get("type") == "approximate":
        del value["type"]
    return UserLocation(**known) if known else None


def _write_location(location: UserLocation) -> Object:
    known = {key: getattr(location, key) for key in _PLACES}
    return {
        "type": "approximate",
        **{key: held for key, held in known.items() if held is not None},
    }


_BEARER = "Bearer "


def _read_bearer(headers: Any) -> str | None:
    """Take a token out of the headers that are sent to a server."""
    for name in headers if type(headers) is dict else ():
        value = headers[name]
        if name.lower() == "authorization" and type(value) is str and value.startswith(_BEARER):
            del headers[name]
            return value.removeprefix(_BEARER)
    return None


def _read_headers(headers: Any) -> tuple[tuple[str, str], ...] | None:
    """Take all headers that are sent to a server."""
    if type(headers) is not dict:
        return None
    found = [(name, value) for name, value in headers.items() if type(value) is str]
    for name, _ in found:
        del headers[name]
    return tuple(found) or None


TEXT = Form(lambda value: value if type(value) is str and value else None, _same)
COUNT = Form(lambda value: value if type(value) is int else None, _same)
TEXTS = Form(_texts, list)
LOCATION = Form(_read_location, _write_location)
# The token among the headers that are sent to a server, and the other headers.
BEARER = Form(_read_bearer, lambda token: {"Authorization": _BEARER + token})
HEADERS = Form(_read_headers, dict)


class ToolRow(Struct, frozen=True, gc=False):
    """The definition of one kind of tool.

    It is read under any of its ``tags`` and written under the first. ``options`` are the fields of its meaning, each
    with its path and form; ``unwritten`` ones are only read. ``fixed`` are fields with a constant value, ``quiet``
    the default values, which carry no meaning. ``models`` is a pattern of the only models that accept it. ``assumed``
    are facts that hold unless the definition says otherwise. A ``bound`` tool means nothing outside its ``home``, the
    provider that has it, for the given reason.
    """

    tool: Callable[..., HostedTool]
    tags: tuple[str, ...]
    options: Mapping[str, tuple[str, Form]] = {}
    fixed: Mapping[str, Any] = {}
    quiet: Mapping[str, Any] = {}
    needs: tuple[str, ...] = ()
    unwritten: frozenset[str] = frozenset()
    models: str = ""
    assumed: Mapping[str, Any] = {}
    bound: str = ""
    home: str = ""

    @property
    def kind(self) -> str:
        """The kind of tool that it defines."""
        return self.tool.kind  # type: ignore[attr-defined,no-any-return]

    def read(self, value: Object) -> tuple[HostedTool, dict[str, str]] | None:
        """Read a definition from an object, with the path of each fact; None if required facts are missing."""
        facts, paths = {}, {}
        for path, quiet in self.quiet.items():
            holder, key, _ = _holder(value, path)
            if holder is not None and key in holder and holder[key] == quiet:
                del holder[key]
        for name, (path, form) in self.options.items():
            holder, key, found = _holder(value, path)
            held = None if holder is None else holder.get(key)
            fact = None if held is None else form.read(held)
            if fact is not None and holder is not None:
                facts[name], paths[name] = fact, found
                if not (type(held) is dict and held):
                    del holder[key]
        for key, fixed in self.fixed.items():
            if value.get(key) == fixed:
                del value[key]
        if not all(name in facts for name in self.needs):
            return None
        for name, fact in self.assumed.items():
            if name not in facts:
                facts[name], paths[name] = fact, ""
        return self.tool(**facts), paths

    def write(self, tool: HostedTool) -> tuple[Object, list[str]]:
        """The object for a definition, and the names of the facts that it cannot express."""
        value: Object = {**self.fixed}
        unsaid = []
        for name in tool.__struct_fields__:
            fact = getattr(tool, name)
            if fact is None or fact in ((), ""):
                continue
            if name not in self.options or name in self.unwritten:
                unsaid.append(name)
                continue
            path, form = self.options[name]
            *fields, key = path.split(".")
            holder = value
            for field in fields:
                holder = holder.setdefault(field, {})
            # A token is one of the headers.
            known, written = holder.get(key, {}), form.write(fact)
            holder[key] = {**known, **written} if type(written) is dict else written
        return value, unsaid


_CAPITAL = re.compile("[A-Z]")


def _spelled(holder: Any, key: str) -> str:
    """A key as an object spells it: some dialects accept both ``camelCase`` and ``snake_case``."""
    if type(holder) is not dict or key in holder or not holder:
        return key
    snake = _snake(key)
    return snake if snake in holder else key


@lru_cache(maxsize=256)
def _snake(key: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


def _holder(value: Any, path: str) -> tuple[Object | None, str, str]:
    """The object in which a path ends (or None), the key there, and the path as the object spells it."""
    *fields, last = path.split(".")
    found = ""
    for field in fields:
        key = _spelled(value, field)
        value = value.get(key) if type(value) is dict else None
        found += f".{key}"
    key = _spelled(value, last)
    return (value if type(value) is dict else None), key, f"{found}.{key}"


# A definition inside a tool: its tag, its object and its path below the tool.
Tagged = tuple[str, Object, str]


def _objects(held: Any) -> list[Object] | None:
    return [item if type(item) is dict else {} for item in (held if type(held) is list else [held])]


class Setting(Struct, frozen=True, gc=False):
    """A request field beside the tools that defines hosted tools; ``read`` gives their objects or None."""

    tag: str
    read: Callable[[Any], list[Object] | None] = _objects


def shows_images(value: Any) -> list[Object] | None:
    """The image definition in a list of output modalities."""
    words = [str(word).lower() for word in value] if type(value) is list else []
    return [{}] if "image" in words else None


class Found(Struct, frozen=True, gc=False):
    """A definition in a request: its tag, its object, its place and the path below the place."""

    tag: str
    value: Object
    place: str
    within: str = ""


def by_type(value: Object) -> Iterator[Tagged]:
    """A definition with a ``type`` field."""
    tag = value.pop("type", None)
    yield (tag if type(tag) is str else ""), value, ""


def with_type(tag: str, value: Object) -> tuple[Object | None, Object]:
    """The inverse of ``by_type``: a tool, and no field beside the tools."""
    return {"type": tag, **value}, {}


# --- tools that the client runs ------------------------------------------------------------------


class ClientTool(Struct, frozen=True, gc=False):
    """A tool that a provider defines and the client runs: for every other dialect it is a function.

    ``schema`` is the JSON text of its public parameters. ``make`` gives the tag and the item of a call that has its
    own shape; without it, a call is an ordinary call of the tool's name.
    """

    tags: tuple[str, ...]
    name: str
    description: str
    schema: str
    # Definition fields that the schema already expresses, or that mean nothing to a model.
    known: tuple[str, ...] = ()
    make: Callable[[str, str], tuple[str, Object]] | None = None
    # Fields in which a definition may describe itself: description and schema.
    describe: Callable[[Object], tuple[str, str]] | None = None


class Group(Struct, frozen=True, gc=False):
    """A tool that contains several functions: their common name ("" for none), and each function with its path.

    ``dropped`` are the names and paths of members that are not functions.
    """

    name: str
    tools: tuple[tuple[Tool, str], ...]
    dropped: tuple[tuple[str, str], ...] = ()


class ClientCall(Struct, frozen=True, gc=False):
    """A call that the client answers; ``tag`` is the tool's."""

    identifier: str
    tag: str
    arguments: str


class ClientResult(Struct, frozen=True, gc=False):
    """What the client answered."""

    identifier: str
    held: Any
    is_error: bool = False


class MoreTools(Struct, frozen=True, gc=False):
    """Tools that are offered from here on, as definitions; ``path`` is their place in the block.

    ``result`` is the result of the call that asked for them.
    """

    tools: tuple[Object, ...]
    path: str
    result: ClientResult | None = None


class Outcome(Struct, frozen=True, gc=False):
    """The outcome of an earlier call."""

    identifier: str
    result: HostedResult | None = None
    error: str | None = None


class Implied(Struct, frozen=True, gc=False):
    """An action that a server performs by itself and that needs no text; ``identifier`` is that of an approved call.

    ``text`` describes it in words; "" if there is nothing to write.
    """

    kind: str
    identifier: str = ""
    text: str = ""


Told = HostedUse | Outcome | ClientCall | ClientResult | MoreTools | Implied


class Beside(Struct, frozen=True, gc=False):
    """A use that a response reports beside its blocks, and its path.

    ``said`` are the paths of everything it reports, ``cited`` those that the response's citations repeat.
    """

    use: HostedUse
    place: str
    said: frozenset[str] = frozenset()
    cited: frozenset[str] = frozenset()


# The blocks of a use in the shapes of a dialect, with their tags.
Written = tuple[tuple[str, Object], ...]


class HostedTable(Struct, frozen=True, gc=False):
    """Everything a dialect knows about hosted tools.

    ``split`` finds the definitions in one tool. ``settings`` are the request fields beside the tools that define
    some, by path; ``gather`` merges the parts of one definition. ``place`` gives the tool of a definition, and the
    body fields that it needs. ``read_block`` takes the facts of a block out of it. ``write_use`` writes a use in a
    response (``is_answer``) or in a history, or gives None if the server would refuse it. ``read_beside`` finds uses
    in the fields around a response. ``chosen`` gives the name by which a tool choice refers to a definition, None if
    it cannot. ``groups`` read tools that contain several functions, by tag; ``group_field`` is the call field that
    names the group. ``read_tool`` reads a tool.
    """

    rows: tuple[ToolRow, ...] = ()
    clients: tuple[ClientTool, ...] = ()
    split: Callable[[Object], Iterable[Tagged]] = by_type
    settings: Mapping[str, Setting] = {}
    gather: Callable[[list[Found]], list[Found]] | None = None
    place: Callable[[str, Object], tuple[Object | None, Object]] = with_type
    read_block: Callable[[str, Object], Told | None] | None = None
    write_use: Callable[[HostedUse, bool], Written | None] | None = None
    read_beside: Callable[[Left], list[Beside]] | None = None
    # How an archive holds a block of another dialect: whether it is a call, its dialect, its tag and its value.
    keep_block: Callable[[bool, str, str, Any], Object | None] | None = None
    chosen: Callable[[Object], str | None] | None = None
    # The tags of calls whose outcome is in another block.
    pairs: frozenset[str] = frozenset()
    # A pattern of the models that accept either hosted tools or functions; the fields that a body needs for both.
    apart: str = ""
    mixed: Mapping[str, Object] = {}
    groups: Mapping[str, Callable[[str, Object], Group | None]] = {}
    group_field: str = ""
    read_tool: Callable[[Object], Any] | None = None

    def row(self, tag: str) -> ToolRow | None:
        """The row with a tag."""
        return next((row for row in self.rows if tag in row.tags), None)

    def row_of(self, kind: str) -> ToolRow | None:
        """The row in which a kind of tool is written."""
        return next((row for row in self.rows if row.kind == kind and row.tags), None)

    def client(self, tag: str) -> ClientTool | None:
        """The client tool with a tag."""
        return next((tool for tool in self.clients if tag in tool.tags), None)


NO_HOSTED = HostedTable()


# --- what is left of an object -------------------------------------------------------------------

# Cache marks, which are lost as one.
_MARKS = ("cache_control", "prompt_cache_breakpoint")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields left in an object after reading, by path; empty values are skipped."""
    if type(value) is dict and last_key(path) not in _MARKS:
        for key, held in value.items():
            yield from leaves(held, path + key_text(key))
    elif type(value) is list:
        for index, held in enumerate(value):
            yield from leaves(held, f"{path}[{index}]")
    elif value is not None and value != "":
        yield path, value


def take_text(value: Any, key: str) -> str | None:
    """Take a text out of an object; None if it has none."""
    if type(value) is dict and type(value.get(key)) is str:
        return value.pop(key)  # type: ignore[no-any-return]
    return None


# --- uses in words -------------------------------------------------------------------------------


def readable(use: HostedUse) -> str:
    """A use as text for people and models."""
    said = [_asked(use)]
    if use.error is not None:
        said.append(f"failed: {use.error}")
    match use.result:
        case Sources():
            said += [
                " ".join(filter(None, (f"{number}.", one.title, one.url or one.file)))
                + (f" ({one.age})" if one.age else "")
                + (f"\n{one.text}" if one.text else "")
                for number, one in enumerate(use.result.items, 1)
            ]
        case Output():
            said += [text.rstrip("\n") for text in (use.result.text, use.result.errors) if text]
            if use.result.exit_code:
                said.append(f"exit code {use.result.exit_code}")
            named = (one.title or one.file or one.url for one in use.result.files)
            said += [f"[file: {name}]" for name in named]
        case None:
            pass
    return "\n".join(said)


def _asked(use: HostedUse) -> str:
    call = use.call
    match call:
        case Search():
            return f"[web search: {'; '.join(call.queries)}]"
        case Fetch():
            looked = f", looking for {call.pattern!r}" if call.pattern else ""
            return f"[web page: {'; '.join(call.urls)}{looked}]"
        case Run():
            return f"[code execution]\n```{call.language}\n{call.code.rstrip(chr(10))}\n```"
        case McpCall():
            return f"[{call.name} of {call.server}: {call.arguments or '{}'}]"
        case FileQuery():
            return f"[file search: {'; '.join(call.queries)}]"
