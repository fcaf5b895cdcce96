"""Converts trees of messages to histories: one path from the root to each leaf, the current one first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cannery.importers.contract import Imported, Node
from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass, digest


def histories(imported: Imported) -> Iterator[list[AnyCanister]]:
    """The canisters of every path from a root to a leaf, the current path first."""
    for branch in branches(imported):
        yield [canister for node in branch for canister in node.canisters]


def branches(imported: Imported) -> Iterator[list[Node]]:
    """Every path from a root to a leaf with content, the current path first.

    A message without content only connects others: it makes no branch of its own.
    """
    everything = {node.identifier: node for node in imported.nodes}
    nodes = spoken(everything)
    parents = {node.parent for node in nodes.values()}
    leaves = [name for name in nodes if name not in parents]
    chosen = _leaf_below(imported, everything, nodes, set(leaves))
    if chosen is not None:
        leaves.remove(chosen)
        leaves.insert(0, chosen)
    if not leaves and nodes:  # only cycles
        leaves = [next(reversed(nodes))]
    for leaf in leaves:
        yield list(_path(leaf, nodes))[::-1]


def spoken(nodes: dict[str, Node]) -> dict[str, Node]:
    """The messages with content, each linked to the nearest message with content above it."""
    # For messages without content: the nearest message with content above them, filled on demand.
    above: dict[str, str | None] = {}

    def parent_of(name: str) -> str | None:
        path: list[str] = []
        at = nodes[name].parent
        while at is not None and at in nodes and not nodes[at].canisters:
            if at in above or at in path:
                at = above.get(at)
                break
            path.append(at)
            at = nodes[at].parent
        found = at if at in nodes else None
        above.update(dict.fromkeys(path, found))
        return found

    return {
        name: node._replace(parent=parent_of(name))
        for name, node in nodes.items()
        if node.canisters
    }


def without_repeats(history: list[AnyCanister]) -> list[AnyCanister]:
    """A history without duplicate results: the same result for a call that already has it."""
    open_calls: Counter[str] = Counter()
    answers: set[tuple[str, bytes]] = set()
    found = []
    for canister in history:
        if isinstance(canister, InvocationCanisterClass):
            open_calls[canister.identifier] += 1
        elif isinstance(canister, ResultCanisterClass):
            name = canister.invocation_id
            answer = name, digest(canister)
            if not open_calls[name] and answer in answers:
                continue
            open_calls[name] -= open_calls[name] > 0
            answers.add(answer)
        found.append(canister)
    return found


def linear(messages: list[tuple[str, tuple[AnyCanister, ...]]]) -> tuple[Node, ...]:
    """A list of messages as a chain of nodes."""
    found: list[Node] = []
    for name, canisters in messages:
        found.append(Node(name, found[-1].identifier if found else None, canisters))
    return tuple(found)


def roots_of(nodes: dict[str, Node]) -> dict[str, str]:
    """The root of the tree of each message."""
    roots: dict[str, str] = {}
    for name in nodes:
        path = []
        above: str | None = name
        while above is not None and above in nodes and above not in roots:
            path.append(above)
            roots[above] = above  # provisional, and ends a cycle
            above = nodes[above].parent
        found = roots.get(above or "", path[-1] if path else name)
        roots |= dict.fromkeys(path, found)
    return roots


def _path(leaf: str, nodes: dict[str, Node]) -> Iterator[Node]:
    """The nodes from a leaf up to its root; a cycle ends where it closes."""
    seen: set[str] = set()
    name: str | None = leaf
    while name is not None and name in nodes and name not in seen:
        seen.add(name)
        yield nodes[name]
        name = nodes[name].parent


def _leaf_below(
    imported: Imported, everything: dict[str, Node], nodes: dict[str, Node], leaves: set[str]
) -> str | None:
    """The leaf below the current message, following the last child at each step."""
    name = imported.current
    if name is None or name not in everything:
        return None
    spoken_on = next((node.identifier for node in _path(name, everything) if node.canisters), None)
    children = {node.parent: node.identifier for node in nodes.values()}
    name = children.get(None) if spoken_on is None else spoken_on
    seen: set[str] = set()
    while name is not None and name not in leaves and name in children and name not in seen:
        seen.add(name)
        name = children[name]
    return name if name in leaves else None
