"""Ids and names that a provider forbids: rewritten injectively and deterministically.

An alias keeps the legal characters of the original and ends in a hash of it, so that two originals never get the same
alias. Legal ids and names are unchanged. A call id that is used again in a later turn gets an alias of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from operator import is_

from cannery.messages import digests
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass, ResultCanisterClass
from cannery.messages.requests import Request, Tool, ToolChoice
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report
from cannery.wire.turns import changed

_HASH_LENGTH = 8


@lru_cache(maxsize=64)
def matcher(pattern: str) -> Callable[[str], object]:
    """A function that tells whether a whole text matches a pattern."""
    return re.compile(pattern).fullmatch


def is_legal(text: str, pattern: str, length: int) -> bool:
    """Whether an id or name fits a provider's alphabet and length."""
    return len(text) <= length and matcher(pattern)(text) is not None


def alias_of(text: str, pattern: str, length: int, salt: str = "") -> str:
    """The legal alias of an id or name."""
    code = digests.sha256(f"{salt}{text}".encode()).hexdigest()
    separator = "_" if is_legal("a_a", pattern, length) else ""
    stem = "".join(
        character if is_legal(f"a{character}", pattern, length) else separator
        for character in text[: max(0, length - _HASH_LENGTH - len(separator))]
    )
    while stem and not is_legal(stem, pattern, length):
        stem = stem[1:]
    candidate = f"{stem}{separator}{code[:_HASH_LENGTH]}" if stem else f"c{code}"[:length]
    return candidate if is_legal(candidate, pattern, length) else f"c{code}"[:length]


def call_ids(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Rewrite call ids that the provider forbids, on calls and results alike."""
    if not rules.pairs_calls:
        return pieces
    given = [
        piece.canister.identifier
        for piece in pieces
        if type(piece.canister) is InvocationCanisterClass
    ]
    taken = {*given}
    is_fine, length = matcher(rules.call_id_pattern), rules.call_id_length
    if len(taken) == len(given) and all(len(each) <= length and is_fine(each) for each in given):
        return pieces
    used: set[str] = set()
    waiting: dict[str, list[str]] = {}
    latest: dict[str, str] = {}
    tries: dict[str, int] = {}
    arranged: list[Piece] = []
    for piece in pieces:
        canister = piece.canister
        if type(canister) is InvocationCanisterClass:
            original = canister.identifier
            alias = _fresh(original, rules, used, taken, tries)
            waiting.setdefault(original, []).append(alias)
            latest[original] = alias
            used.add(alias)
            if alias != original:
                report.repair("call_ids", piece.place, f"call id {original!r} became {alias!r}")
                report.ids[alias] = original
                piece = Piece(changed(canister, identifier=alias), piece.place)  # noqa: PLW2901 - the rewritten one
        elif type(canister) is ResultCanisterClass:
            # Calls that share an id are answered in order.
            queue = waiting.get(canister.invocation_id)
            known = latest.get(canister.invocation_id, canister.invocation_id)
            alias = queue.pop(0) if queue else known
            if alias != canister.invocation_id:
                rewritten = changed(canister, invocation_id=alias)
                piece = Piece(rewritten, piece.place, is_synthetic=piece.is_synthetic)  # noqa: PLW2901 - the rewritten one
        arranged.append(piece)
    return arranged


def _fresh(
    original: str, rules: Rules, used: set[str], taken: set[str], tries: dict[str, int]
) -> str:
    """A legal unused id; ``tries`` counts the uses of each id, so that no alias is tried twice."""
    pattern, length = rules.call_id_pattern, rules.call_id_length
    if original not in used and is_legal(original, pattern, length):
        return original
    while True:
        count = tries.get(original, 0)
        tries[original] = count + 1
        alias = alias_of(original, pattern, length, f"{count}:" if count else "")
        if alias not in used and alias not in taken:
            return alias


def function_names(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Rewrite function names that the provider forbids; tools and tool choice follow from the report."""
    names = {
        piece.canister.name for piece in pieces if type(piece.canister) is InvocationCanisterClass
    }
    if all(is_legal(name, rules.name_pattern, rules.name_length) for name in names):
        return pieces
    arranged: list[Piece] = []
    for piece in pieces:
        canister = piece.canister
        if type(canister) is InvocationCanisterClass:
            alias = name_alias(canister.name, rules, report, piece.place)
            if alias != canister.name:
                piece = Piece(changed(canister, name=alias), piece.place)  # noqa: PLW2901 - the rewritten one
        arranged.append(piece)
    return arranged


def name_alias(name: str, rules: Rules, report: Report, place: int | str | None) -> str:
    """A function name in a form that the provider accepts."""
    if is_legal(name, rules.name_pattern, rules.name_length):
        return name
    alias = _fresh_name(name, rules, report)
    report.repair("function_names", place, f"function name {name!r} became {alias!r}")
    report.lose("NAME_CHANGED", place, f"function name {name!r} became {alias!r}")
    report.names[alias] = name
    return alias


def _fresh_name(name: str, rules: Rules, report: Report) -> str:
    """The alias of a name; it differs from every other name and alias of the request."""
    count = 0
    while True:
        salt = f"{count}:" if count else ""
        alias = alias_of(name, rules.name_pattern, rules.name_length, salt)
        if report.names.get(alias, name) == name and alias not in _taken(report):
            return alias
        count += 1


def _taken(report: Report) -> Collection[str]:
    """The function names of the current request, collected when an alias is first made."""
    if report.taken_names is None:
        report.taken_names = frozenset() if report.request is None else names_of(report.request)
    return report.taken_names


def names_of(request: Request) -> frozenset[str]:
    """The names of all functions that a request offers, chooses or calls."""
    choice = request.tool_choice
    return frozenset(
        (
            *(tool.name for tool in request.tools if tool.hosted is absent),
            *(choice.names if isinstance(choice, ToolChoice) else ()),
            *(
                canister.name
                for canister in request.conversation
                if type(canister) is InvocationCanisterClass
            ),
        )
    )


def renamed_tools(request: Request, rules: Rules, report: Report) -> Request:
    """The request with tool names and tool choice in a form that the provider accepts."""
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if all(map(matcher(rules.name_pattern), names)) and max(map(len, names)) <= rules.name_length:
        # A legal name stays, and so does a choice of it.
        if choice is absent or not choice.names:
            return request
        tools = request.tools
    else:
        tools = _renamed_tools(request.tools, rules, report)
    if choice is not absent and choice.names:
        chosen = tuple(name_alias(name, rules, report, "@tool_choice") for name in choice.names)
        choice = ToolChoice(choice.mode, chosen, choice.must_call, choice.is_freeform)
    if tools is request.tools and choice == request.tool_choice:
        return request
    return request.replace(tools=tools, tool_choice=choice)


def _renamed_tools(tools: tuple[Tool, ...], rules: Rules, report: Report) -> tuple[Tool, ...]:
    renamed = tuple(
        _renamed_tool(tool, rules, report, report.tool_place(index))
        for index, tool in enumerate(tools)
    )
    return tools if all(map(is_, renamed, tools)) else renamed


def _renamed_tool(tool: Tool, rules: Rules, report: Report, place: str) -> Tool:
    if tool.hosted is not absent:
        return tool
    alias = name_alias(tool.name, rules, report, place)
    if alias == tool.name:
        return tool
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    return Tool(**{**fields, "name": alias})
