"""The branches of a conversation: a map that shows shared parts once, and a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import htpy
from htpy import (
    Element,
    Node,
    a,
    button,
    div,
    form,
    fragment,
    label,
    p,
    span,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
)
from markupsafe import Markup
from msgspec import Struct

from cannery.errors import CanneryError
from cannery.messages import UserCanisterClass
from cannery.storage import Tree
from cannery.titles import title_of, typed_text
from cannery.viewer.addresses import ROOT, below, conversation_address
from cannery.viewer.answers import Asked
from cannery.viewer.pages.conversation import load_shown, tabs
from cannery.viewer.pages.layout import crumbs, document
from cannery.viewer.visible import one_line
from cannery.wording import counted

_WIDTH = 280
_ROW = 34
_MOST = 400
_LOOKED = 8


class Branch(Struct, frozen=True):
    """A branch with the facts read from the store."""

    tree: Tree
    row: int
    parent_row: int
    length: int
    title: str
    first: str


def tree_page(asked: Asked, identifier: str) -> Iterator[bytes]:
    """Render the map and the list."""
    shown = load_shown(asked, identifier)
    found = branches_of(asked, identifier)
    content = [
        div(".page")[
            div(".page-head")[
                crumbs(
                    a(href=conversation_address(identifier))[one_line(shown.title, 60)],
                    span["Branches"],
                ),
                tabs(shown, "branches"),
            ],
            _alone(identifier) if len(found) == 1 else _map(found, identifier),
        ]
    ]
    name = f"Branches · {one_line(shown.title, 60)}"
    return document(name, content, kind="branches", twin=below(identifier, "tree.json"))


def branches_of(asked: Asked, identifier: str) -> list[Branch]:
    """All branches of a conversation's tree, parents first."""
    tree = asked.store.tree(identifier)
    found: list[Branch] = []
    rows: dict[str, int] = {}
    waiting: list[tuple[Tree, int]] = [(tree, -1)]
    while waiting and len(found) < _MOST:
        each, parent = waiting.pop()
        row = rows[each.identifier] = len(found)
        found.append(_looked_up(asked, each, row, parent))
        waiting += [(fork, row) for fork in reversed(each.forks) if not fork.kind]
    return found


def _looked_up(asked: Asked, tree: Tree, row: int, parent: int) -> Branch:
    """A branch with its length and its first own prompt."""
    length, title, first = tree.position, tree.title, ""
    try:
        if not tree.is_deleted:
            conversation = asked.store.handle(tree.identifier)
            length = len(conversation)
            own = conversation.read(tree.position, tree.position + _LOOKED).canisters
            first = next(
                (typed_text(each.text) for each in own if isinstance(each, UserCanisterClass)), ""
            )
            title = title or title_of(conversation.read(0, _LOOKED).canisters)
    except CanneryError:
        first = "cannot be read"
    return Branch(tree, row, parent, length, one_line(title, 80) or "Untitled", one_line(first, 90))


def _alone(identifier: str) -> Element:
    return div(".empty")[
        p[Markup("<strong>This conversation has no branches.</strong>")],
        p[
            "When a client sends the same history with an edited message, the edit becomes a branch."
        ],
        p["Or make one: ", span(".code-line")[f"cannery fork {identifier} --at 4"]],
    ]


def _map(found: list[Branch], identifier: str) -> Node:
    longest = max((branch.length for branch in found), default=1) or 1
    return fragment[
        p(".lead")[
            f"{counted(len(found), 'branch', 'branches')}. ",
            "What they share is drawn once; a branch begins where it parts.",
        ],
        form(".branches-form", action=f"{ROOT}/compare", method="get")[
            div(".table")[
                table(".branches-table")[
                    thead[
                        tr[
                            th(scope="col")["Map"],
                            th(scope="col")["Branch"],
                            th(scope="col")["From"],
                            th(scope="col")["Own"],
                            th(scope="col")["Compare"],
                        ]
                    ],
                    tbody[(_row(branch, found, longest, identifier) for branch in found)],
                ]
            ],
            p[button(type="submit")["Compare the two chosen"]],
        ],
    ]


def _row(branch: Branch, found: list[Branch], longest: int, identifier: str) -> Element:
    tree = branch.tree
    is_here = tree.identifier == identifier
    first = _position_of_compare(found, identifier)
    name: Node = span(".quiet")["deleted"]
    if not tree.is_deleted:
        position = tree.position if branch.parent_row >= 0 else None
        told = branch.first if branch.parent_row >= 0 and branch.first else branch.title
        here = {"aria-current": "page"} if is_here else {}
        name = a(here, href=conversation_address(tree.identifier, position))[told or "Untitled"]
    side = {tree.identifier == identifier: "a", branch.row == first: "b"}.get(True, "")
    return tr(".here" if is_here else "")[
        td(".map")[_lane(branch, found, longest, is_here=is_here)],
        td[name],
        td["start" if branch.parent_row < 0 else f"#{tree.position}"],
        td[counted(max(branch.length - tree.position, 0), "message")],
        td(".choose")[
            None if tree.is_deleted else _choice("a", tree.identifier, is_chosen=side == "a"),
            None if tree.is_deleted else _choice("b", tree.identifier, is_chosen=side == "b"),
        ],
    ]


def _position_of_compare(found: list[Branch], identifier: str) -> int:
    """The row preselected for comparison: the parent, or else the first other branch."""
    here = next((branch for branch in found if branch.tree.identifier == identifier), found[0])
    if here.parent_row >= 0 and not found[here.parent_row].tree.is_deleted:
        return here.parent_row
    others = [
        branch.row for branch in found if branch.row != here.row and not branch.tree.is_deleted
    ]
    return others[0] if others else here.row


def _choice(side: str, identifier: str, *, is_chosen: bool) -> Node:
    told = "left" if side == "a" else "right"
    return label[
        htpy.input(
            type="radio",
            name=side,
            value=identifier,
            checked=is_chosen,
            aria_label=f"{identifier} on the {told}",
        ),
        told,
    ]


def _lane(branch: Branch, found: list[Branch], longest: int, *, is_here: bool) -> Markup:
    """A branch as a line from its fork position to its end, and the lines of other forks that cross its row."""
    start, end = _x(branch.tree.position, longest), _x(branch.length, longest)
    middle = _ROW // 2
    shapes = []
    for other in found[branch.row :]:
        # The stem of a fork further down crosses this row.
        if other.parent_row >= 0 and other.parent_row < branch.row <= other.row:
            x = _x(other.tree.position, longest)
            bottom = middle if other.row == branch.row else _ROW
            shapes.append(f'<line class="stem" x1="{x}" y1="0" x2="{x}" y2="{bottom}"/>')
        elif other.parent_row == branch.row:
            x = _x(other.tree.position, longest)
            shapes.append(f'<line class="stem" x1="{x}" y1="{middle}" x2="{x}" y2="{_ROW}"/>')
    kind = "lane here" if is_here else "lane gone" if branch.tree.is_deleted else "lane"
    tip = max(end, start + 4)
    shapes += [
        f'<line class="{kind}" x1="{start}" y1="{middle}" x2="{tip}" y2="{middle}"/>',
        f'<line class="{kind} tip" x1="{tip}" y1="{middle}" x2="{tip}" y2="{middle}"/>',
    ]
    size = f'viewBox="0 0 {_WIDTH + 12} {_ROW}"'
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="lanes" {size} preserveAspectRatio="none" aria-hidden="true">{"".join(shapes)}</svg>'
    )


def _x(position: int, longest: int) -> int:
    return 4 + round(_WIDTH * min(position, longest) / longest)


def tree_data(asked: Asked, identifier: str) -> dict[str, Any]:
    """The page as JSON values."""
    found = branches_of(asked, identifier)
    return {
        "id": identifier,
        "branches": [
            {
                "id": branch.tree.identifier,
                "title": branch.title,
                "parent": found[branch.parent_row].tree.identifier
                if branch.parent_row >= 0
                else None,
                "position": branch.tree.position,
                "length": branch.length,
                "is_deleted": branch.tree.is_deleted,
                "first": branch.first,
            }
            for branch in found
        ],
    }
