"""Two conversations side by side: shared messages once, the others in two columns with the differing words marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from htpy import Element, Node, a, details, div, fragment, h1, header, li, ol, p, span, summary
from markupsafe import Markup

from cannery.errors import InputError
from cannery.messages import InvocationCanisterClass
from cannery.viewer.addresses import conversation_address
from cannery.viewer.alignment import Different, Same, align
from cannery.viewer.answers import Asked
from cannery.viewer.arrangement import Placed
from cannery.viewer.differences import word_changes
from cannery.viewer.pages.conversation import Shown, load_shown
from cannery.viewer.pages.layout import crumbs, document
from cannery.viewer.visible import one_line, visible
from cannery.wording import counted, message_text

MOST = 5_000
_LONGEST = 20_000
_NEAR = 2


def compare_page(asked: Asked) -> Iterator[bytes]:
    """Render both sides."""
    left, right = _sides(asked)
    runs = list(align(*_histories(left, right)))
    same = sum(len(run.left) for run in runs if isinstance(run, Same))
    twin = f"/ui/compare.json?a={left.metadata.id}&b={right.metadata.id}"
    content = [
        div(".page.wide")[
            div(".page-head")[crumbs(span["Compare"]), h1["Two conversations"]],
            p(".lead")[_summary(runs, same)],
            div(".sides.heads")[_side(left), _side(right)],
            [_run(run, left, right) for run in runs],
        ]
    ]
    return document("Compare", content, kind="compare", twin=twin)


def _sides(asked: Asked) -> tuple[Shown, Shown]:
    names = asked.query.get("a", ""), asked.query.get("b", "")
    if not all(names):
        raise InputError("compare what? Give two conversations: /ui/compare?a=ID&b=ID")
    left, right = (load_shown(asked, name) for name in names)
    for shown in (left, right):
        if shown.window.length > MOST:
            raise InputError(
                f"{shown.metadata.id} has more than {MOST:,} messages: too many to compare here"
            )
    return left, right


def _histories(left: Shown, right: Shown) -> tuple[Any, Any]:
    return left.conversation.load(), right.conversation.load()


def _summary(runs: list[Same | Different], same: int) -> str:
    apart = [run for run in runs if isinstance(run, Different)]
    if not apart:
        return f"They say the same: {counted(same, 'message')}."
    rows = sum(len(run.rows) for run in apart)
    return f"{counted(same, 'message')} the same, {counted(rows, 'place')} where they differ."


def _side(shown: Shown) -> Element:
    return header(".side")[
        a(href=conversation_address(shown.metadata.id))[one_line(shown.title, 80)],
        p(".quiet")[f"{counted(shown.window.length, 'message')} · {shown.metadata.id}"],
    ]


def _run(run: Same | Different, left: Shown, right: Shown) -> Node:
    if isinstance(run, Different):
        return [div(".sides")[_pair(mine, yours, left, right)] for mine, yours in run.rows]
    names = left.metadata.id
    if len(run.left) <= 2 * _NEAR:
        return [_both(each, names) for each in run.left]
    hidden = run.left[_NEAR:-_NEAR]
    return fragment[
        [_both(each, names) for each in run.left[:_NEAR]],
        details(".same")[
            summary[f"{counted(len(hidden), 'message')} the same"],
            ol(start=str(hidden[0].position))[(li[_line(each)] for each in hidden)],
        ],
        [_both(each, names) for each in run.left[-_NEAR:]],
    ]


def _line(each: Placed) -> Node:
    return fragment[
        span(f".who.{each.canister.role.value}")[_name(each)],
        " ",
        one_line(message_text(each.canister)[:500], 140),
    ]


def _both(each: Placed, identifier: str) -> Element:
    return div(f".shared.{each.canister.role.value}")[
        a(".who", href=conversation_address(identifier, each.position))[
            f"#{each.position} {_name(each)}"
        ],
        div(".said")[one_line(message_text(each.canister)[:1000], 400)],
    ]


def _pair(mine: Placed | None, yours: Placed | None, left: Shown, right: Shown) -> Node:
    old = "" if mine is None else message_text(mine.canister)[:_LONGEST]
    new = "" if yours is None else message_text(yours.canister)[:_LONGEST]
    if mine is not None and yours is not None:
        before, after = word_changes(old, new)
    else:
        before, after = Markup.escape(visible(old)), Markup.escape(visible(new))
    return fragment[_cell(mine, before, left, "left"), _cell(yours, after, right, "right")]


def _cell(each: Placed | None, text: Markup, shown: Shown, side: str) -> Element:
    if each is None:
        return div(f".cell.nothing.{side}")[span(".quiet")["—"]]
    return div(f".cell.{side}.{each.canister.role.value}")[
        a(".who", href=conversation_address(shown.metadata.id, each.position))[
            f"#{each.position} {_name(each)}"
        ],
        div(".said.words")[text],
    ]


def _name(each: Placed) -> str:
    canister = each.canister
    return (
        visible(canister.name)
        if isinstance(canister, InvocationCanisterClass)
        else canister.role.value
    )


def compare_data(asked: Asked) -> dict[str, Any]:
    """The page as JSON values: runs of positions on both sides."""
    left, right = _sides(asked)
    runs: list[dict[str, Any]] = []
    for run in align(*_histories(left, right)):
        if isinstance(run, Same):
            ends = [run.left[0].position, run.left[-1].position + 1]
            runs.append(
                {"same": True, "a": ends, "b": [run.right[0].position, run.right[-1].position + 1]}
            )
            continue
        rows = [[None if each is None else each.position for each in row] for row in run.rows]
        runs.append({"same": False, "rows": rows})
    return {"a": left.metadata.id, "b": right.metadata.id, "runs": runs}
