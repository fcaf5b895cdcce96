"""The forks of a conversation as a tree that can be walked and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cannery.storage.metadata import Metadata


class Tree(Struct, frozen=True):
    """A conversation and its forks."""

    identifier: str
    title: str
    position: int
    is_deleted: bool
    forks: tuple[Tree, ...]

    def walk(self) -> Iterator[Tree]:
        """This conversation and all under it, parents first."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.forks))

    def draw(self, mark: str | None = None) -> str:
        """The tree as text, one conversation a line; ``mark`` gets a star."""
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


def build_tree(root: str, everything: Mapping[str, Metadata]) -> Tree:
    """The tree under a conversation."""
    children: dict[str, list[str]] = {}
    for identifier, metadata in everything.items():
        if metadata.parent is not None:
            children.setdefault(metadata.parent, []).append(identifier)
    order = [root]
    for identifier in order:
        order += sorted(children.get(identifier, ()))
    built: dict[str, Tree] = {}
    for identifier in reversed(order):
        metadata = everything[identifier]
        forks = tuple(built[child] for child in sorted(children.get(identifier, ())))
        is_deleted = metadata.deleted is not None
        built[identifier] = Tree(identifier, metadata.title, metadata.position, is_deleted, forks)
    return built[root]


def root_of(identifier: str, everything: Mapping[str, Metadata]) -> str:
    """The oldest ancestor that is known."""
    seen = {identifier}
    while True:
        metadata = everything.get(identifier)
        parent = metadata.parent if metadata is not None else None
        if parent is None or parent in seen or parent not in everything:
            return identifier
        seen.add(parent)
        identifier = parent
