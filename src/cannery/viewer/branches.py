"""Where the branches of a conversation part, and what there is to choose from at each of these places."""

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
    """One way on from a place where branches part."""

    identifier: str
    title: str
    is_current: bool


class Parting(Struct, frozen=True):
    """A position from which branches go on differently."""

    position: int
    options: tuple[Option, ...]

    @property
    def current(self) -> int:
        """Which of the options is looked at, from 0."""
        return next((at for at, option in enumerate(self.options) if option.is_current), 0)


def partings(store: Store, tree: Tree, identifier: str) -> dict[int, Parting]:
    """The places along a conversation where others part from it, by position."""
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
    """Options by what each goes on with: conversations that part begin alike, and mostly have the same title."""
    named = [
        replace(option, title=_goes_on(store, option.identifier, position) or option.title)
        for option in options[:_MOST_NAMED]
    ]
    return (*named, *options[_MOST_NAMED:])


def _goes_on(store: Store, identifier: str, position: int) -> str:
    try:
        return title_of(store.handle(identifier).read(position, position + _LOOKED).canisters)
    except CanneryError:
        # What is damaged says so on its own page.
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
    """The conversations from the oldest ancestor to one."""
    waiting: list[list[Tree]] = [[tree]]
    while waiting:
        path = waiting.pop()
        if path[-1].identifier == identifier:
            return path
        waiting += [[*path, fork] for fork in path[-1].forks]
    return []


def branch_count(tree: Tree) -> int:
    """How many branches of a tree can be looked at; children of other kinds are none."""
    return sum(not each.is_deleted and not each.kind for each in tree.walk())
