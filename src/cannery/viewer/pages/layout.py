"""The parts that all pages share: the frame, the header, and sending a page in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import htpy
from htpy import (
    Element,
    Node,
    a,
    body,
    button,
    dd,
    dialog,
    div,
    dl,
    dt,
    footer,
    form,
    fragment,
    h2,
    head,
    header,
    kbd,
    label,
    link,
    main,
    meta,
    nav,
    script,
    span,
    title,
)
from markupsafe import Markup

from cannery.viewer.addresses import ROOT, list_address
from cannery.viewer.assets import asset_address

_KEYS = (
    ("j / k", "next / previous message"),
    ("[ / ]", "previous / next prompt"),
    ("t", "open or close all thinking"),
    ("o", "open or close all calls and results"),
    ("b", "branches"),
    ("y", "copy the message"),
    ("/", "search"),
    ("g", "list of conversations"),
    ("?", "this help"),
)

_NO_FILTERS: Mapping[str, str] = MappingProxyType({})


def document(
    name: str,
    content: Iterable[Node],
    *,
    kind: str,
    query: str = "",
    filters: Mapping[str, str] = _NO_FILTERS,
    twin: str = "",
) -> Iterator[bytes]:
    """Render a whole page in chunks, each sent as soon as it is ready.

    A search from the page keeps its ``filters``.
    """
    opening = fragment[
        Markup('<!doctype html><html lang="en">'),
        _head(name, twin),
        Markup(f'<body class="on-{kind}">'),  # noqa: S704 - our own word
        a(".skip", href="#content")["Skip to content"],
        _bar(query, filters),
        Markup('<main id="content" tabindex="-1">'),
    ]
    yield _encoded(opening)
    for node in content:
        yield _encoded(node)
    yield _encoded(fragment[Markup("</main>"), _foot(twin), _help(), Markup("</body></html>")])


def part(content: Iterable[Node]) -> Iterator[bytes]:
    """Render a part of a page that the script inserts."""
    for node in content:
        yield _encoded(node)


def _encoded(node: Node) -> bytes:
    return str(fragment[node]).encode("utf-8", "replace")


def _head(name: str, twin: str) -> Element:
    return head[
        meta(charset="utf-8"),
        meta(name="viewport", content="width=device-width, initial-scale=1"),
        meta(name="color-scheme", content="light dark"),
        meta(name="robots", content="noindex"),
        title[f"{name} · Cannery"],
        link(rel="icon", href=asset_address("icon.svg"), type="image/svg+xml"),
        link(rel="stylesheet", href=asset_address("viewer.css")),
        link(rel="alternate", type="application/json", href=twin) if twin else None,
        script(type="module", src=asset_address("viewer.js")),
    ]


def _bar(query: str, filters: Mapping[str, str]) -> Element:
    return header(".bar")[
        a(".brand", href=ROOT)["Cannery"],
        form(".search", action=ROOT, method="get", role="search")[
            label(".hidden", for_="search")["Search all conversations"],
            htpy.input(
                "#search",
                name="q",
                type="search",
                value=query,
                placeholder="Search all conversations",
                autocomplete="off",
                spellcheck="false",
            ),
            (htpy.input(type="hidden", name=name, value=value) for name, value in filters.items()),
        ],
        nav(".tools", aria_label="Page")[
            button(".scripted", {"data-action": "theme"}, type="button", title="Dark or light")[
                "Theme"
            ],
            button(".scripted", {"data-action": "help"}, type="button", title="Keyboard shortcuts")[
                "Keys"
            ],
        ],
    ]


def _foot(twin: str) -> Element:
    return footer(".foot")[a(href=twin)["This page as JSON"] if twin else None]


def _help() -> Element:
    rows = [fragment[dt[kbd[keys]], dd[words]] for keys, words in _KEYS]
    return fragment[
        dialog("#help", aria_labelledby="help-title")[
            h2("#help-title")["Keyboard"],
            dl[rows],
            form(method="dialog")[button(type="submit")["Close"]],
        ],
        div("#toast", role="status", aria_live="polite"),
    ]  # type: ignore[return-value]


def crumbs(*items: Node) -> Element:
    """The breadcrumbs."""
    return nav(".crumbs", aria_label="Breadcrumb")[
        a(href=list_address())["Conversations"],
        (fragment[span(".sep")["/"], item] for item in items),
    ]


def empty(words: str, *advice: Node) -> Element:
    """An empty page or part, with advice."""
    return div(".empty")[h2[words], advice]


__all__ = ["body", "crumbs", "document", "empty", "main", "part"]
