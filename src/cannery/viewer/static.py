"""Conversations as one self-contained HTML file without scripts.

It uses the renderer and the style sheet of the served pages. The policy in the file allows that style sheet and the
media inside the file, and nothing else, wherever the file is opened.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from htpy import (
    Node,
    a,
    aside,
    div,
    fragment,
    h1,
    h2,
    head,
    header,
    li,
    meta,
    nav,
    ol,
    p,
    span,
    style,
    time,
    title,
)
from markupsafe import Markup

from cannery.errors import CanneryError
from cannery.messages import Conversation, Location
from cannery.storage import Metadata
from cannery.titles import title_of
from cannery.viewer.arrangement import arrange, placed
from cannery.viewer.assets import read_asset
from cannery.viewer.contents import Links, shown_type
from cannery.viewer.messages import Surroundings, blocks_html
from cannery.viewer.outline import prompts
from cannery.viewer.visible import one_line
from cannery.wire.media import sniff
from cannery.wording import counted

_PIECE = 200


def static_page(pages: Sequence[tuple[Metadata, Conversation]]) -> Iterator[bytes]:
    """Render conversations as one file, in chunks."""
    names = [_title(metadata, conversation) for metadata, conversation in pages]
    name = names[0] if len(names) == 1 else f"{len(names)} conversations"
    yield _encoded(
        Markup('<!doctype html><html lang="en">'), _head(name), Markup('<body class="on-static">')
    )
    yield _encoded(Markup('<main id="content">'))
    if len(pages) > 1:
        yield _encoded(_contents(names))
    for number, (metadata, conversation) in enumerate(pages):
        yield from _conversation(number, names[number], metadata, conversation)
    yield _encoded(Markup("</main></body></html>\n"))


def _title(metadata: Metadata, conversation: Conversation) -> str:
    return one_line(metadata.title or title_of(conversation), 160) or "Conversation"


def _head(name: str) -> Node:
    sheet = read_asset("viewer.css").decode()
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; media-src data:"
    return head[
        meta(charset="utf-8"),
        meta(http_equiv="Content-Security-Policy", content=policy),
        meta(name="referrer", content="no-referrer"),
        meta(name="viewport", content="width=device-width, initial-scale=1"),
        meta(name="color-scheme", content="light dark"),
        title[name],
        style[Markup(sheet)],  # noqa: S704 - our own file
    ]


def _contents(names: Sequence[str]) -> Node:
    return nav(".page", aria_label="Conversations")[
        h1[f"{len(names)} conversations"],
        ol[(li[a(href=f"#c{number}")[name]] for number, name in enumerate(names))],
    ]


def _conversation(
    number: int, name: str, metadata: Metadata, conversation: Conversation
) -> Iterator[bytes]:
    anchor = f"c{number}-m"
    around = Surroundings(_links(anchor), anchor=anchor)
    everything = placed(conversation)
    yield _encoded(
        Markup(f'<section id="c{number}" class="page with-rail">'),  # noqa: S704 - a number
        div(".page-head")[_facts(name, metadata, conversation)],
        Markup('<div class="messages">'),
    )
    blocks = list(arrange(everything))
    for start in range(0, len(blocks), _PIECE):
        yield _encoded(*blocks_html(blocks[start : start + _PIECE], around))
    outline = list(prompts(everything))
    yield _encoded(
        Markup("</div>"),
        aside(".rail", aria_label=f"Outline of {name}")[
            h2["Prompts"],
            ol(".outline")[
                (li[a(href=f"#{anchor}{position}")[words]] for position, words in outline)
            ],
        ],
        Markup("</section>"),
    )


def _facts(name: str, metadata: Metadata, conversation: Conversation) -> Node:
    told = [metadata.id, metadata.model or "", *(f"#{tag}" for tag in metadata.tags)]
    return header(".title")[
        h1[name],
        p(".page-facts")[
            span(".fact")[counted(len(conversation), "message")],
            span(".fact")[
                time(datetime=metadata.created.isoformat())[
                    metadata.created.strftime("%Y-%m-%d %H:%M UTC")
                ]
            ],
            (span(".fact")[one_line(fact, 80)] for fact in told if fact),
        ],
    ]


def _links(anchor: str) -> Links:
    return Links(
        media=_inside,
        message=lambda position: f"#{anchor}{position}",
        whole=lambda position: "",  # noqa: ARG005 - nothing is truncated
    )


def _inside(content: Any) -> str:
    """Media as data URLs: under the type of their bytes if it can be displayed, otherwise as a download."""
    if isinstance(content.payload, Location):
        return ""
    try:
        data = content.data
    except CanneryError:
        return ""
    found = sniff(data)
    kind = (
        found if found is not None and found == shown_type(content) else "application/octet-stream"
    )
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _encoded(*nodes: Node) -> bytes:
    return str(fragment[nodes]).encode("utf-8", "replace")
