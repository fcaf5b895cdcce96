"""Renders the content of messages as HTML: one function for each kind of content.

Media are shown only from the store's own addresses, and only under types that cannot run code; content at other
locations becomes a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, assert_never

from htpy import (
    Node,
    a,
    audio,
    blockquote,
    details,
    div,
    fragment,
    img,
    p,
    pre,
    span,
    summary,
    video,
)
from msgspec import Struct

from cannery.messages import (
    AnyContent,
    AudioContentClass,
    Citation,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    Location,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.viewer.highlighting import highlight
from cannery.viewer.json_lines import pretty
from cannery.viewer.markdown import markdown
from cannery.viewer.typed_text import passages
from cannery.viewer.visible import one_line, visible
from cannery.wire.media import is_text_file
from cannery.wording import counted, payload_size, size_text

# Types that browsers display without running code.
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
PLAYED = frozenset(
    {
        *("audio/mpeg", "audio/wav", "audio/ogg", "audio/flac", "audio/mp4", "audio/aac"),
        *("video/mp4", "video/webm", "video/ogg"),
    }
)
_SPELLINGS = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav"}
_FOLDED_LINES = 24
_FOLDED_CHARACTERS = 2_400
_LONGEST = 60_000


class Links(Struct, frozen=True):
    """Functions from a content or a position to an address, "" if there is none.

    ``whole`` is the page of one complete message; if it returns "", nothing is truncated.
    """

    media: Callable[[Any], str]
    message: Callable[[int], str]
    whole: Callable[[int], str]


class Place(Struct, frozen=True):
    """The context of rendering: the links, the position of the message, and whether to render it completely."""

    links: Links
    position: int
    is_whole: bool = False


def content_html(content: AnyContent, place: Place, *, is_plain: bool = False) -> Node:
    """Render a content; ``is_plain`` for text that is not Markdown, such as the output of a tool."""
    match content:
        case TextualContentClass():
            return _text(content, place, is_plain=is_plain)
        case ImageContentClass() | AudioContentClass() | VideoContentClass():
            return _media(content, place)
        case FileContentClass():
            return _file(content, place)
        case ReasoningContentClass():
            return _reasoning(content)
        case RefusalContentClass():
            return div(".refusal")[span(".badge.error")["refused"], markdown(content.text)]
        case DataContentClass():
            return json_html(content.json)
        case OpaqueContentClass():
            return _folded(
                f"{content.tag or 'block'} of {content.dialect}", json_html(content.json)
            )
        case PartsContentClass():
            return fragment[
                (content_html(part, place, is_plain=is_plain) for part in content.parts)
            ]
        case _:
            assert_never(content)


def _text(content: TextualContentClass, place: Place, *, is_plain: bool) -> Node:
    text = content.text
    shown = plain_text(text, place) if is_plain else marked_text(text, place)
    return fragment[shown, citations(content.citations)]


def marked_text(text: str, place: Place) -> Node:
    """Render text as Markdown; blocks that a program inserted are folded."""
    return fragment[_passages(text, place)]


def _passages(text: str, place: Place) -> Iterator[Node]:
    for passage in passages(text):
        if not passage.tag:
            shown, left = _shortened(passage.text, place)
            yield markdown(shown)
            yield left
            continue
        told = f"{passage.tag} · {counted(len(passage.text), 'character')}"
        yield details(".setup")[summary[told], plain_text(passage.text, place)]


def plain_text(text: str, place: Place) -> Node:
    """Render text verbatim; JSON is indented, and long text is folded."""
    shown, left = _shortened(text, place)
    if shown[:1] in ("{", "[") and left is None:
        laid_out = pretty(text)
        if laid_out is not None:
            return fold(pre(".plain", tabindex="0")[highlight(laid_out, "json")], laid_out, place)
    return fragment[fold(pre(".plain", tabindex="0")[visible(shown)], shown, place), left]


def _shortened(text: str, place: Place) -> tuple[str, Node]:
    """Truncate a text that is too long for a page, and add a link to the whole message."""
    whole = place.links.whole(place.position)
    if len(text) <= _LONGEST or place.is_whole or not whole:
        return text, None
    left = counted(len(text) - _LONGEST, "character")
    return text[:_LONGEST], p(".left-out")[
        f"{left} more. ", a(href=whole)["Show all of this message"]
    ]


def fold(shown: Node, text: str, place: Place) -> Node:
    """Fold long text behind its first line, unless the whole message is wanted."""
    lines = text.count("\n") + 1
    if place.is_whole or (lines <= _FOLDED_LINES and len(text) <= _FOLDED_CHARACTERS):
        return shown
    first = one_line(text.lstrip()[:400], 90)
    count = counted(lines, "line") if lines > 1 else counted(len(text), "character")
    return details(".long")[summary[span(".first")[first], span(".count")[count]], shown]


def _folded(words: str, shown: Node) -> Node:
    return details(".long")[summary[span(".first")[visible(words)]], shown]


def json_html(text: str) -> Node:
    """Render JSON indented and coloured; verbatim if it is too long or invalid."""
    laid_out = pretty(text)
    if laid_out is None:
        return pre(".plain", tabindex="0")[visible(text)]
    return pre(".code", {"data-language": "json"}, tabindex="0")[highlight(laid_out, "json")]


def citations(cited: tuple[Citation, ...]) -> Node:
    """Render the sources that a text cites."""
    if not cited:
        return None
    items = [_citation(each) for each in cited]
    told = counted(len(cited), "source")
    return details(".citations")[summary[told], div[(p[item] for item in items)]]


def _citation(each: Citation) -> Node:
    name = visible(each.title or each.url or "source")
    shown: Node = name
    if each.url and each.url.startswith(("http://", "https://")):
        shown = a(href=each.url, target="_blank", rel="noopener noreferrer nofollow")[name]
    return fragment[shown, blockquote[visible(each.cited_text)] if each.cited_text else None]


def _reasoning(content: ReasoningContentClass) -> Node:
    words = content.shown
    if words:
        return markdown(words)
    origin = content.origin.dialect if content.origin is not None else "its provider"
    return p(".quiet")[f"Encrypted: only {origin} can read this."]


# --- media -------------------------------------------------------------------------------------


def shown_type(content: Any) -> str:
    """The declared media type if it may be displayed, otherwise "". The server checks the bytes as well."""
    declared = str(content.mime_type).partition(";")[0].strip().lower()
    declared = _SPELLINGS.get(declared, declared)
    return declared if declared in SHOWN_IMAGES or declared in PLAYED else ""


def _media(content: Any, place: Place) -> Node:
    payload = content.payload
    if isinstance(payload, Location):
        return _elsewhere(content.kind, payload)
    kind = shown_type(content)
    address = place.links.media(content)
    label = (
        f"{content.kind}, {content.mime_type or 'unknown type'}, {size_text(payload_size(payload))}"
    )
    if not address:
        return p(".quiet")[f"[{visible(label)}]"]
    if kind in SHOWN_IMAGES and content.kind == "image":
        return a(".media", href=address)[
            img(src=address, alt=visible(label), loading="lazy", decoding="async")
        ]
    if kind in PLAYED and content.kind == "audio":
        return audio(controls=True, preload="none", src=address, aria_label=visible(label))
    if kind in PLAYED and content.kind == "video":
        return video(controls=True, preload="none", src=address, aria_label=visible(label))
    return _card(visible(label), address)


def _elsewhere(kind: str, payload: Location) -> Node:
    """Media at another location are not loaded, because that would tell their host that they were viewed."""
    name = visible(payload.value)
    if payload.kind == "url" and payload.value.startswith(("http://", "https://")):
        link = a(href=payload.value, target="_blank", rel="noopener noreferrer nofollow")[
            one_line(name, 120)
        ]
        return p(".file")[
            span(".badge")[kind], " ", link, span(".quiet")[" not loaded: external location"]
        ]
    return p(".file")[
        span(".badge")[kind], f" {one_line(name, 120)}", span(".quiet")[" kept by its provider"]
    ]


def _card(label: str, address: str) -> Node:
    return p(".file")[
        span(".badge")["file"], f" {label} ", a(href=address, download=True)["Download"]
    ]


def _file(content: FileContentClass, place: Place) -> Node:
    payload = content.payload
    if content.chunks:
        inner = fragment[(content_html(chunk, place, is_plain=True) for chunk in content.chunks)]
        return div(".file-text")[_file_head(content), inner]
    if isinstance(payload, Location):
        return _elsewhere(content.name or "file", payload)
    if is_text_file(content):
        text = content.data.decode("utf-8", "replace")
        return div(".file-text")[_file_head(content), plain_text(text, place)]
    label = f"{content.name or 'file'}, {content.mime_type}, {size_text(payload_size(payload))}"
    address = place.links.media(content)
    return _card(visible(label), address) if address else p(".file")[visible(label)]


def _file_head(content: FileContentClass) -> Node:
    name = visible(content.name or content.mime_type or "file")
    note = span(".quiet")[f" {visible(content.context)}"] if content.context else None
    return p(".file")[span(".badge")["file"], f" {name}", note]
