"""Offered tools: the tools of a request in the shapes of another dialect.

Each tool of another dialect becomes one of the target, a function that the client runs, or a loss; options that the
target cannot express are losses of their own. The functions of a group get names that combine group and function.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

import msgspec
from msgspec import Struct

from cannery.dialects import find_dialect
from cannery.hosting.blocks import report_left, table_of, told_by
from cannery.messages.absence import Absential, absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.hosted import HostedTool
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, ToolChoice, new_tool
from cannery.wire.bodies import Object
from cannery.wire.contract import Dialect
from cannery.wire.hosted import NO_HOSTED, ClientTool, Found, Group, HostedTable, MoreTools, ToolRow
from cannery.wire.losses import OwnCall, Report
from cannery.wire.residues import dropped_keys

_Added = list[tuple[int, MoreTools, HostedTable]]


class Offer(Struct):
    """The tools of a request in the target's form, and the body fields that this requires beside them."""

    tools: list[Tool] = []
    places: list[str] = []
    fields: Object = {}
    report: Report = msgspec.field(default_factory=Report)
    # The kinds that the target offers, the function of each client tool, and of each tool of a group.
    kinds: set[str] = set()
    # Hosted tools by their identity: one of a kind, but for servers and file stores.
    hosted: dict[tuple[Any, ...], HostedTool] = {}
    functions: dict[tuple[str, str], str] = {}
    own: dict[str, OwnCall] = {}
    # Settings of the source that are written as tools.
    settings: set[str] = set()
    # Whether a function of a group was called; it has another name in the target.
    renames_calls: bool = False
    # The tool choice, which may refer to tools that have other names now.
    choice: Absential[ToolChoice] = absent

    def add(self, tool: Tool, place: str) -> None:
        """Offer one more tool."""
        self.tools.append(tool)
        self.places.append(place)

    def sort(self) -> None:
        """Put the tools in the order of the request; tools from settings and messages follow."""
        positions = [*map(_position, self.places)]
        order = sorted(range(len(positions)), key=positions.__getitem__)
        self.tools = [self.tools[index] for index in order]
        self.places = [self.places[index] for index in order]

    def fresh_name(self, name: str, taken: Container[str]) -> str:
        """A name that no other function has."""
        count, found = 1, name
        while found in taken or found in self.own:
            count += 1
            found = f"{name}_{count}"
        return found

    def tell(self, report: Report) -> None:
        """Record the offer in the report of a body."""
        report.lost += self.report.lost
        report.own = self.own
        report.tool_places = (*self.places,)


_LISTED = "tools["


def _identity(tool: HostedTool) -> tuple[Any, ...]:
    """What a request has one hosted tool of: a kind, the label of a server, the stores that are searched."""
    return tool.kind, getattr(tool, "label", None), getattr(tool, "stores", None)


def _position(place: str) -> int:
    """The position of a tool in the request; tools from settings and messages come after all others."""
    return int(place[len(_LISTED) : place.index("]")]) if place.startswith(_LISTED) else 1 << 30


def offered(
    request: Request, target: Dialect, *, has_blocks: bool, has_patched_calls: bool
) -> Offer | None:
    """The offer of a request to another dialect; None if every tool is an ordinary function."""
    table = NO_HOSTED if request.source is None else find_dialect(request.source).hosted
    settings = _settings(request, table) if table.settings and request.residue is not None else {}
    more = _more_tools(request, target) if has_blocks else []
    field = table.group_field
    calls = _group_calls(request, field) if has_patched_calls and field else []
    hosted = [tool for tool in request.tools if tool.hosted is not absent]
    if settings or more or calls or hosted:
        return _Offering(request, target).offer(settings, more, calls)
    return None


def _settings(request: Request, table: HostedTable) -> Object:
    """The fields beside the tools that define hosted tools."""
    residue = request.residue
    if residue is None or residue.envelope is None:
        return {}
    if not any(f'"{key.rpartition(".")[2]}"' in residue.envelope for key in table.settings):
        return {}
    found = {}
    for path, held in dropped_keys(residue.envelope):
        for key in table.settings:
            inner = _within(key, path.removeprefix("."), held)
            if inner is not None:
                found[key] = inner
    return found


def _within(key: str, path: str, held: Any) -> Any:
    """The value at a path of at most two steps, by the values of the first step or of both."""
    if key == path:
        return held
    holder, _, field = key.rpartition(".")
    return held.get(field) if holder == path and type(held) is dict else None


def _more_tools(request: Request, target: Dialect) -> _Added:
    """The tools that blocks of a conversation add; blocks of the target stay, and add their tools themselves."""
    found = []
    for index, canister in enumerate(request.conversation):
        told, table = told_by(canister.held)[:2]
        if isinstance(told, MoreTools) and table is not None and table is not target.hosted:
            found.append((index, told, table))
    return found


def _group_calls(request: Request, field: str) -> list[tuple[str, str]]:
    """The group and the name of each call of a function in a group."""
    return [
        (group, canister.name)
        for canister in request.conversation
        if type(canister) is InvocationCanisterClass
        and (group := group_of(canister, field)) is not None
    ]


def group_of(canister: AnyCanister, field: str) -> str | None:
    """The common name of a group's functions, if a call has it in a field."""
    residue = canister.residue
    if residue is None or residue.part is None or f'"{field}"' not in residue.part:
        return None
    found = dict(dropped_keys(residue.part)).get(f".{field}")
    return found if type(found) is str and found else None


class _Offering:
    """Builds the offer of one request."""

    def __init__(self, request: Request, target: Dialect) -> None:
        self._request = request
        self._target = target
        self._offer = Offer()
        self._names = {tool.name for tool in request.tools if tool.hosted is absent}
        # What the calls of each group remember of it.
        self._parts: dict[str, str] = {}

    def offer(self, settings: Object, more: _Added, calls: list[tuple[str, str]]) -> Offer:
        """Offer all tools, in order; then those that settings define, and those that were added later."""
        found: list[Found] = []
        for index, tool in enumerate(self._request.tools):
            place = f"tools[{index}]"
            if type(tool.hosted) is str:
                found += self._hosted(tool, tool.hosted, place)
            else:
                self._offer.add(tool, place)
        table = self._source(None)
        for key, held in settings.items():
            setting = table.settings[key]
            for position, item in enumerate(setting.read(held) or ()):
                self._offer.settings.add(key)
                place = key if type(held) is not list else f"{key}[{position}]"
                found.append(Found(setting.tag, item, place))
        self._define(found, table)
        for index, told, its_table in more:
            for position, item in enumerate(told.tools):
                place = f"#{index}{told.path}[{position}]"
                self._define(self._item(item, place, its_table), its_table)
        for group, name in calls:
            self._grouped(group, name)
            self._offer.renames_calls = True
        self._offer.sort()
        self._mix()
        self._offer.choice = self._chosen()
        return self._offer

    def _chosen(self) -> Absential[ToolChoice]:
        """The tool choice with the target's names; a choice of an unsent tool keeps its name."""
        choice, tools = self._request.tool_choice, self._request.tools
        if not isinstance(choice, ToolChoice) or not choice.names:
            return choice
        names = {}
        for tool, place in zip(self._offer.tools, self._offer.places, strict=True):
            position = _position(place)
            asked = tools[position] if place == f"{_LISTED}{position}]" else None
            if asked is not None and isinstance(asked.hosted, str):
                name = self._chosen_name(tool)
                if name is not None:
                    names[asked.name] = name
        return msgspec.structs.replace(choice, names=tuple(names.get(n, n) for n in choice.names))

    def _chosen_name(self, tool: Tool) -> str | None:
        """The name by which the target's tool choice refers to a tool."""
        if not isinstance(tool.hosted, str):
            return tool.name
        chosen = self._target.hosted.chosen
        return None if chosen is None else chosen(decode_json(tool.hosted))

    def _mix(self) -> None:
        """Offer functions and hosted tools together if the model accepts both; else only the functions."""
        offer, table = self._offer, self._target.hosted
        is_hosted = [isinstance(tool.hosted, str) for tool in offer.tools]
        if not (table.mixed and any(is_hosted)) or all(is_hosted):
            return
        model = self._request.model
        if not (isinstance(model, str) and re.search(table.apart, model)):
            offer.fields.update(table.mixed)
            return
        kept = [index for index, hosted in enumerate(is_hosted) if not hosted]
        for index, hosted in enumerate(is_hosted):
            if hosted:
                detail = f"{model} takes no {offer.tools[index].name!r} beside functions"
                offer.report.lose("TOOL_DROPPED", offer.places[index], detail)
        offer.tools = [offer.tools[index] for index in kept]
        offer.places = [offer.places[index] for index in kept]
        offer.kinds.clear()

    def _source(self, tool: Tool | None) -> HostedTable:
        """The table of the dialect of a tool."""
        residue = None if tool is None else tool.residue
        name = self._request.source if residue is None else residue.dialect
        return NO_HOSTED if name is None else table_of(name) or NO_HOSTED

    def _hosted(self, tool: Tool, hosted: str, place: str) -> list[Found]:
        """Offer a hosted tool; returns its definitions that need another form."""
        residue = tool.residue
        origin = self._request.source if residue is None else residue.dialect
        value = decode_json(hosted)
        if origin is None or origin == self._target.name or type(value) is not dict:
            if origin in (None, self._target.name):
                self._offer.add(tool, place)
            else:
                self._drop(tool.name, place)
            return []
        return self._split(value, place, self._source(tool), tool.name)

    def _split(self, value: Object, place: str, table: HostedTable, name: str) -> list[Found]:
        found = [Found(tag, inner, place, within) for tag, inner, within in table.split(value)]
        if not found:
            self._drop(name, place)
        return found

    def _item(self, item: Object, place: str, table: HostedTable) -> list[Found]:
        """Offer a tool that a block defines."""
        tool = None if table.read_tool is None else table.read_tool(item)
        if tool is None or isinstance(tool.hosted, str):
            return self._split(item, place, table, str(item.get("type")))
        if tool.name not in self._names:
            # A search that finds a function again offers it once.
            self._names.add(tool.name)
            self._offer.add(tool, place)
        return []

    def _group(self, found: Found, group: Group) -> None:
        """Offer each function of a group, under a name that combines both if the group has a name."""
        offer = self._offer
        for tool, path in group.tools:
            name = self._grouped(group.name, tool.name) if group.name else tool.name
            if name not in self._names:
                self._names.add(name)
                where = found.place + found.within + path
                offer.add(msgspec.structs.replace(tool, name=name), where)
                detail = f"{tool.name!r} of {group.name or found.tag!r} was offered as {name!r}"
                offer.report.lose("TOOL_TO_FUNCTION", where, detail)
        for name, path in group.dropped:
            self._drop(name, found.place, found.within + path)
        report_left(found.value, offer.report, found.place, found.within)

    def _grouped(self, group: str, name: str) -> str:
        """The function for a member of a group: the same for its definition and its calls."""
        offer = self._offer
        known = offer.functions.get((group, name))
        if known is not None:
            return known
        joined = f"{group}{'' if group.endswith('__') else '__'}{name}"
        alias = offer.fresh_name(joined, self._names)
        part = self._parts.get(group)
        if part is None:
            part = write_json({"s": {self._source(None).group_field: group}})
            self._parts[group] = part
        offer.functions[group, name] = alias
        offer.own[alias] = OwnCall(str(self._request.source), name, part)
        return alias

    def _define(self, found: list[Found], table: HostedTable) -> None:
        if table.gather is not None:
            found = table.gather(found)
        for each in found:
            row = table.row(each.tag)
            if self._expand(each, table, row):
                continue
            read = None if row is None or self._is_bound(row) else row.read(each.value)
            if read is None:
                self._drop(each.tag, each.place, each.within, "" if row is None else row.bound)
                continue
            tool, paths = read
            for name in self._write(tool, each) or ():
                detail = f"the target's tool has no {name.replace('_', ' ')}"
                path = each.within + paths[name]
                self._offer.report.lose("FIELD_DROPPED", each.place, detail, path)

    def _expand(self, found: Found, table: HostedTable, row: ToolRow | None) -> bool:
        """Offer a client tool as functions, unless the target has an equivalent."""
        if row is not None and self._target.hosted.row_of(row.kind) is not None:
            return False
        client, read = table.client(found.tag), table.groups.get(found.tag)
        group = None if read is None else read(found.tag, found.value)
        if group is not None:
            self._group(found, group)
        elif client is not None:
            self._function(found, client)
        return group is not None or client is not None

    def _is_bound(self, row: ToolRow) -> bool:
        """Whether a tool means nothing to the target, because it belongs to another provider."""
        ours = self._target.hosted.row_of(row.kind)
        return bool(row.bound) and not (row.home and ours is not None and ours.home == row.home)

    def _write(self, tool: HostedTool, found: Found) -> list[str] | None:
        """Offer a tool in the target's form; returns the facts that it cannot express, None if it has no such tool."""
        offer, table = self._offer, self._target.hosted
        row = table.row_of(tool.kind)
        if row is None:
            self._drop(found.tag, found.place, found.within)
            return None
        model = self._request.model
        if row.models and not (isinstance(model, str) and re.search(row.models, model)):
            named = model if isinstance(model, str) else "a model that is not known"
            self._drop(found.tag, found.place, found.within, f"{named} takes no such tool")
            return None
        known = offer.hosted.setdefault(_identity(tool), tool)
        if known is not tool:
            if known == tool:
                report_left(found.value, offer.report, found.place, found.within)
            else:
                detail = f"another {found.tag!r} was offered already"
                self._drop(found.tag, found.place, found.within, detail)
            return None
        value, unsaid = row.write(tool)
        report_left(found.value, offer.report, found.place, found.within)
        written, fields = table.place(row.tags[0], value)
        if written is not None:
            name = written.get("name") or row.tags[0]
            offer.add(new_tool(str(name), hosted=write_json(written)), found.place)
        for key, held in fields.items():
            placed = offer.fields.get(key)
            offer.fields[key] = [*placed, *held] if type(placed) is list else held
        offer.kinds.add(tool.kind)
        return unsaid

    def _function(self, found: Found, client: ClientTool) -> None:
        """Offer a client tool as a function."""
        offer, value = self._offer, found.value
        own = value.pop("name", None)
        wanted = own if type(own) is str and own else client.name
        name = offer.fresh_name(wanted, self._names)
        for key in client.known:
            value.pop(key, None)
        description, schema = client.description, client.schema
        if client.describe is not None:
            description, schema = client.describe(value)
        self._names.add(name)
        offer.functions[found.tag, ""] = name
        if client.make is not None:
            offer.own[name] = OwnCall(str(self._request.source), name, None, client.make)
        elif name != wanted:
            offer.own[name] = OwnCall(str(self._request.source), wanted)
        offer.add(new_tool(name, description, schema), found.place)
        offer.report.lose("TOOL_TO_FUNCTION", found.place, "", found.within)
        report_left(value, offer.report, found.place, found.within)

    def _drop(self, name: str, place: str, within: str = "", detail: str = "") -> None:
        detail = detail or f"{self._target.name} has no hosted tool {name!r}"
        self._offer.report.lose("TOOL_DROPPED", place, detail, within)
