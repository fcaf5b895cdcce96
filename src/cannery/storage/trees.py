"""The forks of a conversation as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from cannery.backends import Branch


class Tree(Struct, frozen=True):
    """A conversation and its forks."""

    identifier: str
    title: str
    position: int
    is_deleted: bool
    forks: tuple[Tree, ...]
    kind: str = ""

    def walk(self) -> Iterator[Tree]:
        """This conversation and its descendants, parents first."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.forks))

    def draw(self, mark: str | None = None) -> str:
        """The tree as text, one conversation per line; ``mark`` gets a star."""
        lines: list[str] = []
        waiting = [(self, "", "")]
        while waiting:
            tree, own, below = waiting.pop()
            star = " *" if tree.identifier == mark else ""
            gone = " (deleted)" if tree.is_deleted else ""
            at = f" at {tree.position}" if own else ""
            title = f" {tree.title}" if tree.title else ""
            lines.append(f"{own}{tree.identifier}{at}{title}{gone}{star}")
            last = len(tree.forks) - 1
            for index in range(last, -1, -1):
                is_last = index == last
                waiting.append(
                    (
                        tree.forks[index],
                        below + ("└─ " if is_last else "├─ "),
                        below + ("   " if is_last else "│  "),
                    )
                )
        return "\n".join(lines)


def build_tree(branches: Iterable[Branch], identifier: str) -> Tree:
    """The tree that a conversation belongs to, from its oldest ancestor down."""
    known = {branch.identifier: branch for branch in branches}
    children: dict[str, list[str]] = {}
    for branch in known.values():
        if branch.parent is not None:
            children.setdefault(branch.parent, []).append(branch.identifier)
    root = _root_of(known, identifier)
    order = [root]
    for name in order:
        order += sorted(children.get(name, ()))
    built: dict[str, Tree] = {}
    for name in reversed(order):
        branch = known[name]
        forks = tuple(built[child] for child in sorted(children.get(name, ())))
        built[name] = Tree(
            name, branch.title, branch.position, branch.is_deleted, forks, branch.kind
        )
    return built[root]


def _root_of(known: Mapping[str, Branch], identifier: str) -> str:
    """The oldest known ancestor."""
    seen = {identifier}
    while True:
        parent = known[identifier].parent
        if parent is None or parent in seen or parent not in known:
            return identifier
        seen.add(parent)
        identifier = parent
