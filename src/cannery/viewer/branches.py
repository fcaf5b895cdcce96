"""Finds the positions where branches of a conversation diverge, and the branches to choose from at each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from cannery.errors import CanneryError
from cannery.storage import Store, Tree
from cannery.titles import title_of

_LOOKED = 12
_MOST_NAMED = 50


class Option(Struct, frozen=True):
    """One of the branches at a position."""

    identifier: str
    title: str
    is_current: bool


class Parting(Struct, frozen=True):
    """A position where branches diverge."""

    position: int
    options: tuple[Option, ...]

    @property
    def current(self) -> int:
        """The index of the current option, from 0."""
        return next((at for at, option in enumerate(self.options) if option.is_current), 0)


def partings(store: Store, tree: Tree, identifier: str) -> dict[int, Parting]:
    """The positions along a conversation where branches diverge."""
    path = path_to(tree, identifier)
    found = {}
    for node, following in zip(path, [*path[1:], None], strict=True):
        for position in sorted({fork.position for fork in node.forks if not fork.kind}):
            if following is not None and position > following.position:
                break
            options = tuple(_options(node, following, position))
            if len(options) > 1 and any(option.is_current for option in options):
                found[position] = Parting(position, _named(store, options, position))
    return found


def _named(store: Store, options: tuple[Option, ...], position: int) -> tuple[Option, ...]:
    """Label each option by its text after the fork: branches begin with the same messages and usually share a title."""
    named = [
        replace(option, title=_goes_on(store, option.identifier, position) or option.title)
        for option in options[:_MOST_NAMED]
    ]
    return (*named, *options[_MOST_NAMED:])


def _goes_on(store: Store, identifier: str, position: int) -> str:
    try:
        return title_of(store.handle(identifier).read(position, position + _LOOKED).canisters)
    except CanneryError:
        # Damage is reported on the page of the conversation.
        return ""


def _options(node: Tree, following: Tree | None, position: int) -> Iterator[Option]:
    """The conversation itself, then its forks at a position."""
    leaves = following is not None and following.position == position
    if not node.is_deleted:
        yield Option(node.identifier, node.title, not leaves)
    for fork in node.forks:
        if fork.position == position and not fork.is_deleted and not fork.kind:
            is_current = (
                leaves and following is not None and fork.identifier == following.identifier
            )
            yield Option(fork.identifier, fork.title, is_current)


def path_to(tree: Tree, identifier: str) -> list[Tree]:
    """The conversations from the root to a given one."""
    waiting: list[list[Tree]] = [[tree]]
    while waiting:
        path = waiting.pop()
        if path[-1].identifier == identifier:
            return path
        waiting += [[*path, fork] for fork in path[-1].forks]
    return []


def branch_count(tree: Tree) -> int:
    """The number of branches in a tree that are not deleted; children of a kind do not count."""
    return sum(not each.is_deleted and not each.kind for each in tree.walk())
