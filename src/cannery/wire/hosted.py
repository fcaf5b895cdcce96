"""How a dialect spells hosted tools: the tables by which meaning is read from its shapes, and written in them.

One table for each dialect (``Dialect.hosted``) and none for a pair: what one reads into the words of
``cannery.messages.hosted``, any other writes from them. Reading takes what it understands out of a decoded object; what
is left of it is what another dialect does not hear. A tool that the client itself runs has no meaning beyond its
schema: elsewhere it is a function, and its calls are calls.
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
from cannery.wire.residues import Left

# --- definitions -------------------------------------------------------------------------------


class Form(Struct, frozen=True, gc=False):
    """How one fact of a definition is spelled; ``read`` gives None for what it does not understand."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _texts(value: Any) -> tuple[str, ...] | None:
    is_texts = type(value) is list and value and all(type(item) is str for item in value)
    return tuple(value) if is_texts else None


_PLACES = UserLocation.__struct_fields__


def _read_location(value: Any) -> UserLocation | None:
    """Take the place of a user; what else stands beside it stays."""
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
# A token among the headers that are sent to a server, and the other headers there.
BEARER = Form(_read_bearer, lambda token: {"Authorization": _BEARER + token})
HEADERS = Form(_read_headers, dict)


class ToolRow(Struct, frozen=True, gc=False):
    """How one kind of tool is defined.

    It is read under any of its ``tags`` and written under the first. ``options`` are the fields of its meaning, each
    with its path and form, and those that are ``unwritten`` are only read. ``fixed`` are fields that are always the
    same, ``quiet`` values that say nothing, since they are the default. ``models`` is a pattern of the only models that
    take it. ``assumed`` are facts that hold where nothing is said of them. A tool that is ``bound`` means nothing
    outside its ``home``, the provider that has it, for the reason that is given.
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
        """What kind of tool it defines."""
        return self.tool.kind  # type: ignore[attr-defined,no-any-return]

    def read(self, value: Object) -> tuple[HostedTool, dict[str, str]] | None:
        """Take a definition out of an object, with the path of each fact; None if it says too little."""
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
        """The object of a definition, and the names of the facts that it cannot say."""
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
    """A key as an object spells it: some dialects take both ``camelCase`` and ``snake_case``."""
    if type(holder) is not dict or key in holder or not holder:
        return key
    snake = _snake(key)
    return snake if snake in holder else key


@lru_cache(maxsize=256)
def _snake(key: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


def _holder(value: Any, path: str) -> tuple[Object | None, str, str]:
    """The object in which a path ends, if there is one, the key there, and the path as it is spelled."""
    *fields, last = path.split(".")
    found = ""
    for field in fields:
        key = _spelled(value, field)
        value = value.get(key) if type(value) is dict else None
        found += f".{key}"
    key = _spelled(value, last)
    return (value if type(value) is dict else None), key, f"{found}.{key}"


# A definition in a tool: its tag, its object and its path below the tool.
Tagged = tuple[str, Object, str]


def _objects(held: Any) -> list[Object] | None:
    return [item if type(item) is dict else {} for item in (held if type(held) is list else [held])]


class Setting(Struct, frozen=True, gc=False):
    """A field of a request beside its tools that defines some; ``read`` gives their objects, None if there are none."""

    tag: str
    read: Callable[[Any], list[Object] | None] = _objects


def shows_images(value: Any) -> list[Object] | None:
    """The definition of images in a list of what an answer may hold."""
    words = [str(word).lower() for word in value] if type(value) is list else []
    return [{}] if "image" in words else None


class Found(Struct, frozen=True, gc=False):
    """A definition in a request: its tag, its object, the place where it stands and the path below that."""

    tag: str
    value: Object
    place: str
    within: str = ""


def by_type(value: Object) -> Iterator[Tagged]:
    """A definition that names its type."""
    tag = value.pop("type", None)
    yield (tag if type(tag) is str else ""), value, ""


def with_type(tag: str, value: Object) -> tuple[Object | None, Object]:
    """The same, written: a tool, and no field beside the tools."""
    return {"type": tag, **value}, {}


# --- tools that the client runs ------------------------------------------------------------------


class ClientTool(Struct, frozen=True, gc=False):
    """A tool that a provider defines and the client runs: a function for everybody else.

    ``schema`` is the JSON text of its public parameters, ``make`` gives the tag and the item of a call that has a shape
    of its own; a call without one is an ordinary call of the tool's name.
    """

    tags: tuple[str, ...]
    name: str
    description: str
    schema: str
    # Fields of the definition that the schema says, or that say nothing to a model.
    known: tuple[str, ...] = ()
    make: Callable[[str, str], tuple[str, Object]] | None = None
    # What a definition says of itself, where it does: description and schema.
    describe: Callable[[Object], tuple[str, str]] | None = None


class Group(Struct, frozen=True, gc=False):
    """A tool that is several functions: the name that they have in common ("" for none), and each with its path.

    ``dropped`` are the names and paths of those that are no functions.
    """

    name: str
    tools: tuple[tuple[Tool, str], ...]
    dropped: tuple[tuple[str, str], ...] = ()


class ClientCall(Struct, frozen=True, gc=False):
    """A call that the client is to answer; ``tag`` is that of the tool."""

    identifier: str
    tag: str
    arguments: str


class ClientResult(Struct, frozen=True, gc=False):
    """What the client answered."""

    identifier: str
    held: Any
    is_error: bool = False


class MoreTools(Struct, frozen=True, gc=False):
    """Tools that are offered from here on, as their definitions; ``path`` is where they stand in the block.

    ``result`` is what a call got to hear that asked for them.
    """

    tools: tuple[Object, ...]
    path: str
    result: ClientResult | None = None


class Outcome(Struct, frozen=True, gc=False):
    """What came of a call that stands before it."""

    identifier: str
    result: HostedResult | None = None
    error: str | None = None


class Implied(Struct, frozen=True, gc=False):
    """What needs no words where a server does it by itself; ``identifier`` is that of a call that was consented to.

    ``text`` says it in words, "" where there is nothing to say.
    """

    kind: str
    identifier: str = ""
    text: str = ""


Told = HostedUse | Outcome | ClientCall | ClientResult | MoreTools | Implied


class Beside(Struct, frozen=True, gc=False):
    """A use that an answer tells beside its blocks, and the path where it stands.

    ``said`` are the paths of all that it says, ``cited`` those that the citations of the answer say again.
    """

    use: HostedUse
    place: str
    said: frozenset[str] = frozenset()
    cited: frozenset[str] = frozenset()


# The blocks of a use in the shapes of a dialect, with their tags.
Written = tuple[tuple[str, Object], ...]


class HostedTable(Struct, frozen=True, gc=False):
    """All that a dialect knows of hosted tools.

    ``split`` finds the definitions in one tool. ``settings`` are the fields of a request beside its tools that define
    some, by their paths; ``gather`` puts together what belongs to one definition. ``place`` gives
    the tool of a definition, and the fields of the body that it takes. ``read_block`` takes what a block tells out of
    it; ``write_use`` says a use in an answer or in a history (``is_answer``), or gives None where the server would
    refuse it. ``read_beside`` finds uses in the fields around an answer. ``chosen`` gives the name by which a choice of
    tools names a definition, None where it cannot. ``groups`` read tools that are several functions, by their tags;
    ``group_field`` is the field of a call that names its group. ``read_tool`` reads a tool.
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
    chosen: Callable[[Object], str | None] | None = None
    # The tags of calls of which another block says what came of them.
    pairs: frozenset[str] = frozenset()
    # A pattern of the models that take hosted tools or functions and not both; the fields that a body needs for both.
    apart: str = ""
    mixed: Mapping[str, Object] = {}
    groups: Mapping[str, Callable[[str, Object], Group | None]] = {}
    group_field: str = ""
    read_tool: Callable[[Object], Any] | None = None

    def row(self, tag: str) -> ToolRow | None:
        """The row of a tag."""
        return next((row for row in self.rows if tag in row.tags), None)

    def row_of(self, kind: str) -> ToolRow | None:
        """The row in which a kind of tool is written."""
        return next((row for row in self.rows if row.kind == kind and row.tags), None)

    def client(self, tag: str) -> ClientTool | None:
        """The client's tool of a tag."""
        return next((tool for tool in self.clients if tag in tool.tags), None)


NO_HOSTED = HostedTable()


# --- what is left of an object -------------------------------------------------------------------

# Cache marks, which are lost as one.
_MARKS = ("cache_control", "prompt_cache_breakpoint")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What an object still says after reading, by its path; what is empty says nothing."""
    if type(value) is dict and path.rpartition(".")[2] not in _MARKS:
        for key, held in value.items():
            yield from leaves(held, f"{path}.{key}")
    elif type(value) is list:
        for index, held in enumerate(value):
            yield from leaves(held, f"{path}[{index}]")
    elif value is not None and value != "":
        yield path, value


def take_text(value: Any, key: str) -> str | None:
    """Take a text out of an object; None if it has none there."""
    if type(value) is dict and type(value.get(key)) is str:
        return value.pop(key)  # type: ignore[no-any-return]
    return None


# --- uses in words -------------------------------------------------------------------------------


def readable(use: HostedUse) -> str:
    """A use as text that a person and a model can read."""
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
