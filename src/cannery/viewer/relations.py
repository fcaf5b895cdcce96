"""Sub-agents, compactions, side requests and changed instructions of a conversation, by message.

Sub-agents, compactions and side requests are children with a kind; changed instructions are versions with the position
where they begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from htpy import Node, a, details, div, fragment, span, summary
from msgspec import Struct

from cannery.backends import Metadata
from cannery.errors import CanneryError
from cannery.messages import AnyCanister
from cannery.storage import Instructions, Store, Tree
from cannery.viewer.addresses import conversation_address
from cannery.viewer.branches import path_to
from cannery.viewer.differences import line_changes
from cannery.viewer.visible import one_line
from cannery.wording import counted, message_text

_NAMES = {"subagent": "Sub-agent", "compaction": "Compacted"}
_MOST = 200


class Child(Struct, frozen=True):
    """A conversation that was started from another, before one of its messages."""

    identifier: str
    kind: str
    title: str
    position: int

    @property
    def name(self) -> str:
        """The name of its kind for display."""
        return _NAMES.get(self.kind, f"Side request ({self.kind.rpartition(':')[2]})")


def children_of(store: Store, tree: Tree, identifier: str, length: int) -> list[Child]:
    """The children of a conversation, by position."""
    here = path_to(tree, identifier)
    found = []
    for node in here[-1].forks[:_MOST] if here else ():
        if node.kind and not node.is_deleted:
            try:
                metadata = store.metadata_of(node.identifier)
            except CanneryError:
                continue
            began = length if metadata.began_at is None else metadata.began_at
            found.append(Child(node.identifier, node.kind, node.title, min(began, length)))
    return sorted(found, key=lambda child: child.position)


def child_html(child: Child) -> Node:
    """A link to a child."""
    title = one_line(child.title, 80) or "look at it"
    return div(f".child.{'side' if child.kind not in _NAMES else child.kind}")[
        span(".badge")[child.name], a(href=conversation_address(child.identifier))[title]
    ]


def origin_html(metadata: Metadata) -> Node:
    """A link to the parent; None if there is none."""
    if metadata.parent is None:
        return None
    at = metadata.position if not metadata.kind else metadata.began_at or 0
    told = "forked" if not metadata.kind else Child("", metadata.kind, "", 0).name.lower()
    return a(href=conversation_address(metadata.parent, at))[f"{told} at #{at}"]


def versions_html(versions: Sequence[Instructions]) -> Iterator[tuple[int, Node]]:
    """The positions where instructions or tools changed, each with the difference."""
    for before, after in pairwise(versions):
        changed = []
        old, new = _text(before.canisters), _text(after.canisters)
        if old != new:
            changed.append(line_changes(old, new))
        tools = "tools" if before.tools != after.tools else ""
        words = " and ".join(filter(None, ("instructions" if changed else "", tools)))
        if not words:
            continue
        told = f"From here on: other {words}"
        shown = fragment[changed] if changed else None
        yield after.position, details(".version")[summary[told], shown]


def _text(canisters: Sequence[AnyCanister]) -> str:
    return "\n\n".join(map(message_text, canisters))


def count_text(children: Sequence[Child]) -> str:
    """The number of sub-agents, as text."""
    agents = sum(child.kind == "subagent" for child in children)
    return counted(agents, "sub-agent") if agents else ""
