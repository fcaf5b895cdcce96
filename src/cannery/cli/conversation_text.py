"""A conversation as text for a terminal: coloured roles, rendered Markdown, calls with their results."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cannery.cli.canisters import heading
from cannery.cli.terminal import ROLE_COLOURS, harmless, is_terminal, paint, width
from cannery.messages import (
    AnyCanister,
    Conversation,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    TextualContentClass,
)
from cannery.messages.role import Role
from cannery.wording import message_text

_BRANCH = re.compile(r"([ │├└─]*)([0-9a-z_-]+)( at \d+)?(.*)")


def paragraphs(conversation: Conversation, *, start: int = 0) -> Iterator[str]:
    """Yield each canister under its heading; a result directly follows its call."""
    answered = {
        id(exchange.invocation): exchange.results
        for exchange in conversation.exchanges()
        if exchange.invocation is not None
    }
    paired = {id(result) for results in answered.values() for result in results}
    places = {id(canister): index for index, canister in enumerate(conversation, start)}
    for index, canister in enumerate(conversation, start):
        if id(canister) in paired:
            continue
        yield _block(index, canister)
        for result in answered.get(id(canister), ()):
            yield _block(places[id(result)], result, indent="    ")
        if isinstance(canister, InvocationCanisterClass) and not answered.get(id(canister)):
            yield paint("    (no result)", "dim")


def _block(index: int, canister: AnyCanister, indent: str = "") -> str:
    colour = ROLE_COLOURS[canister.role.value]
    name = heading(canister)
    if _is_reasoning(canister):
        name += " (reasoning)"
    arrow = "→ " if isinstance(canister, ResultCanisterClass) else ""
    head = f"{indent}{arrow}{paint(name, 'bold', colour)} {paint(f'[{index}]', 'dim')}"
    body = _body(canister)
    inset = indent + "  "
    return head + "\n" + "\n".join(f"{inset}{line}".rstrip() for line in body.split("\n"))


def _is_reasoning(canister: AnyCanister) -> bool:
    return isinstance(getattr(canister, "content", None), ReasoningContentClass)


def _body(canister: AnyCanister) -> str:
    if isinstance(canister, InvocationCanisterClass):
        return harmless(_arguments(canister))
    text = harmless(message_text(canister))
    if _is_reasoning(canister):
        return paint(text, "dim")
    spoken = canister.role in (Role.User, Role.Assistant, Role.Document)
    if spoken and is_terminal() and isinstance(canister.content, TextualContentClass):
        return _markdown(text)
    return text


def _arguments(canister: InvocationCanisterClass) -> str:
    if not canister.is_object:
        return canister.arguments_text
    lines = []
    for name, value in canister.arguments.items():
        shown = value if isinstance(value, str) else _compact(value)
        more = "\n    " if "\n" in shown else " "
        lines.append(f"{name}:{more}" + shown.replace("\n", "\n    "))
    return "\n".join(lines) or "(no arguments)"


def _compact(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: object) -> object:
    """Convert our immutable arrays and dictionaries to lists and dicts."""
    if hasattr(value, "items"):
        return dict(value.items())
    return list(value)  # type: ignore[call-overload]


def _markdown(text: str) -> str:
    """Render Markdown for the terminal; return the text unchanged without rich."""
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ImportError:
        return text
    from cannery.cli.terminal import is_coloured

    columns = max(min(width(), 100) - 2, 20)
    console = Console(width=columns, force_terminal=is_coloured(), no_color=not is_coloured())
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    return captured.get().strip("\n")


def painted_tree(drawn: str) -> str:
    """Colour a tree of forks: ids in colour, fork positions dimmed, the requested conversation in bold."""
    lines = []
    for line in harmless(drawn).splitlines():
        found = _BRANCH.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        lead, name, place, title = found.groups("")
        shown = paint(title, "bold") if title.endswith(" *") else title
        lines.append(f"{paint(lead, 'dim')}{paint(name, 'cyan')}{paint(place, 'dim')}{shown}")
    return "\n".join(lines)
