"""The page of one complete message, without truncation or folding."""

from __future__ import annotations

from collections.abc import Iterator

from htpy import a, div, li, span, ul

from cannery.errors import NotFoundError
from cannery.viewer.addresses import below, conversation_address, links_of
from cannery.viewer.answers import Asked
from cannery.viewer.arrangement import Placed
from cannery.viewer.messages import Surroundings, message_html
from cannery.viewer.pages.layout import crumbs, document
from cannery.viewer.visible import one_line


def find_message(asked: Asked, identifier: str, position: int) -> Placed:
    """The message at a position; NotFoundError if there is none."""
    conversation = asked.store.get(identifier)
    found = conversation.read(position, position + 1).canisters
    if not found:
        raise NotFoundError(f"conversation {identifier} has no message {position}")
    return Placed(position, found[0])


def message_page(asked: Asked, identifier: str, position: int) -> Iterator[bytes]:
    """Render the message, with links to copies of it."""
    placed = find_message(asked, identifier, position)
    title = one_line(asked.store.metadata_of(identifier).title, 60) or "Conversation"
    around = Surroundings(links_of(identifier), is_whole=True)
    copies = [("txt", "Text"), ("md", "Markdown"), ("json", "JSON")]
    content = [
        div(".page")[
            div(".page-head")[
                crumbs(
                    a(href=conversation_address(identifier, position))[title],
                    span[f"Message {position}"],
                ),
                ul(".jumps.inline")[
                    (
                        li[a(".copy", href=below(identifier, "m", f"{position}.{ending}"))[told]]
                        for ending, told in copies
                    )
                ],
            ],
            div(".messages")[message_html(placed, around)],
        ]
    ]
    name = f"Message {position} · {title}"
    return document(name, content, kind="message", twin=below(identifier, "m", f"{position}.json"))
