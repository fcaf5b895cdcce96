"""Markdown as safe HTML: HTML in it is escaped, images become links, and the output is sanitised.

markdown-it renders without raw HTML, and nh3 allows only the listed tags, attributes and URL schemes, so that each
covers mistakes of the other. Text beyond a size is shown verbatim.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import nh3
from htpy import pre
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from cannery.viewer.elements import FRAGMENTS
from cannery.viewer.highlighting import highlight, language_of
from cannery.viewer.visible import visible

_LONGEST = 200_000
# A browser takes seconds to lay out larger tables.
_MOST_CELLS = 10_000
_MOST_COLUMNS = 200
_TAGS = frozenset(
    {
        *("a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol"),
        *("p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
    }
)
_ATTRIBUTES = {
    "a": {"href", "title", "target"},
    "code": {"class"},
    "div": {"class"},
    "ol": {"start"},
    "pre": {"class", "data-language", "tabindex"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class"},
}
_SCHEMES = {"http", "https", "mailto"}
_ALIGNED = {"text-align:right": "right", "text-align:center": "center", "text-align:left": ""}


def markdown(text: str) -> Markup:
    """Render text as Markdown."""
    if len(text) > _LONGEST or _is_huge_table(text):
        return Markup(str(pre(".plain")[visible(text)]))  # noqa: S704 - htpy escapes
    return FRAGMENTS.get("markdown", text, _render)


def _is_huge_table(text: str) -> bool:
    """Whether a possible table has too many columns or cells to render."""
    bars = text.count("|")
    if bars <= _MOST_COLUMNS:
        return False
    return bars > _MOST_CELLS or any(line.count("|") > _MOST_COLUMNS for line in text.splitlines())


def _render(text: str) -> Markup:
    rendered = _parser().render(visible(text))
    clean = nh3.clean(
        rendered,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)  # noqa: S704 - nh3 sanitised it


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_harmless  # type: ignore[method-assign]
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _is_harmless(url: str) -> bool:
    """Whether a URL is allowed as a link: it has an allowed scheme, and is not a path of this site."""
    scheme, colon, _ = url.strip().lower().partition(":")
    return bool(colon) and scheme in _SCHEMES


def _fence(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    return str(code_block(token.content.removesuffix("\n"), token.info.strip()))


def code_block(code: str, language: str = "") -> Markup:
    """A block of highlighted code."""
    known = language_of(language)
    attributes = {"data-language": known} if known else {}
    return Markup(str(pre(".code", attributes, tabindex="0")[highlight(code, language)]))  # noqa: S704 - escaped


def _image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Render an image as a link, because loading it would tell its host that it was viewed."""
    token = tokens[index]
    alternative = token.content or "image"
    source = str(token.attrs.get("src", ""))
    if not _is_harmless(source):
        return str(escape(f"[image: {alternative}]"))
    link = f'<a href="{escape(source)}" target="_blank">'
    return f'{link}<span class="remote">image: {escape(alternative)}</span></a>'


def _link_open(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    href = str(tokens[index].attrs.get("href", ""))
    return f'<a href="{escape(href)}" title="{escape(href)}" target="_blank">'


def _heading(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Render headings at levels below those of the page, to preserve its outline."""
    token = tokens[index]
    level = min(int(token.tag[1]) + 3, 6)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>"


def _table(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    is_open = tokens[index].nesting == 1
    return '<div class="table"><table>' if is_open else "</table></div>"


def _cell(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    if token.nesting != 1:
        return f"</{token.tag}>"
    side = _ALIGNED.get(str(token.attrs.get("style", "")), "")
    return f'<{token.tag} class="{side}">' if side else f"<{token.tag}>"


_RULES = {
    "fence": _fence,
    "code_block": _fence,
    "image": _image,
    "link_open": _link_open,
    "heading_open": _heading,
    "heading_close": _heading,
    "table_open": _table,
    "table_close": _table,
    "td_open": _cell,
    "th_open": _cell,
}
