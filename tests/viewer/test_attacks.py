"""Nothing that is said becomes anything but text: every tag and attribute of every page is one of ours."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.viewer.answers import Asked
from cannery.viewer.markdown import markdown
from cannery.viewer.site import Site
from tests.viewer.attacks import ATTACKS, hostile_conversation

_TAGS = frozenset(
    {
        *("a", "article", "aside", "audio", "blockquote", "body", "br", "button", "circle"),
        *("code", "dd", "del", "details", "dialog", "div", "dl", "dt", "em", "footer", "form"),
        *("fragment", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "img"),
        *(
            "input",
            "ins",
            "kbd",
            "label",
            "li",
            "line",
            "link",
            "main",
            "mark",
            "meta",
            "nav",
            "noscript",
        ),
        *("ol", "option", "p", "pre", "s", "script", "section", "select", "span", "strong"),
        *("summary", "svg", "table", "tbody", "td", "th", "thead", "time", "title", "tr", "ul"),
        *("video"),
    }
)
_ATTRIBUTES = frozenset(
    {
        *("action", "alt", "aria-current", "aria-hidden", "aria-label", "aria-labelledby"),
        *("aria-live", "autocomplete", "autofocus", "charset", "checked", "class", "colspan"),
        *("content", "controls", "cx", "cy", "data-action", "data-at-end", "data-end", "data-id"),
        *(
            "data-language",
            "data-length",
            "data-live",
            "data-more",
            "data-position",
            "data-role",
            "data-seen",
            "data-unfiled",
        ),
        *("datetime", "decoding", "download", "for", "height", "href", "id", "lang", "loading"),
        *("method", "name", "placeholder", "preload", "preserveaspectratio", "r", "rel"),
        *("required", "role", "scope", "selected", "spellcheck", "src", "start", "tabindex"),
        *("target", "title", "type", "value", "viewbox", "width", "x1", "x2", "y1", "y2", "open"),
    }
)


class Inspector(HTMLParser):
    """Collects what a page has that it should not."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            if name not in _ATTRIBUTES:
                self.wrong.append(f"<{tag} {name}>")
            if name in ("href", "src", "action"):
                self._check_address(tag, name, value or "")
        if tag == "script":
            self.scripts += 1

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("script", "style") and data.strip():
            self.wrong.append(f"inline {self.lasttag}")

    def _check_address(self, tag: str, name: str, value: str) -> None:
        scheme = urlsplit(value).scheme
        is_ours = value.startswith(("/ui", "#"))
        if tag == "a" and name == "href" and scheme in ("http", "https", "mailto"):
            return
        if not is_ours:
            self.wrong.append(f"<{tag} {name}={value[:60]!r}>")


def inspect(page: bytes) -> Inspector:
    inspector = Inspector()
    inspector.feed(page.decode())
    inspector.close()
    return inspector


@pytest.fixture(scope="module")
def site():
    return Site()


def pages_of(site, store, identifier):
    for path in (
        "",
        f"/c/{identifier}",
        f"/c/{identifier}/tree",
        f"/c/{identifier}/as",
        f"/c/{identifier}/doctor",
    ):
        yield path, {}
    for position in (0, 7, 9, 12, 13, 17):
        yield f"/c/{identifier}/m/{position}", {}
    yield "/compare", {"a": identifier, "b": store.list(limit=1)[0].identifier}
    yield f"/c/{identifier}/as", {"to": "gemini_generate", "model": "<script>alert(1)</script>"}


def body_of(answer):
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda text: repr(text[:24]))
def test_attack_stays_text_on_every_page(site, attack):
    with cannery.open_store("sqlite::memory:") as store:
        title = attack.replace("\x00", "")[:400]
        conversation = store.create(
            title=title, tags=[title[:60].strip() or "x"], model=title[:100] or None
        )
        conversation.append(hostile_conversation(attack))
        fork = conversation.fork(at=3)
        fork.append(cannery.user(f"{attack} otherwise"), cannery.assistant(attack))
        for path, query in pages_of(site, store, conversation.identifier):
            answer = site.answer(Asked(store, path, query))
            assert answer.status == 200, (path, body_of(answer)[-300:])
            found = inspect(body_of(answer))
            assert not found.wrong, (path, found.wrong[:5])
            assert found.scripts == 1, path
        searched = site.answer(Asked(store, "", {"q": attack[:200], "tag": attack[:50]}))
        assert not inspect(body_of(searched)).wrong


@pytest.mark.parametrize(
    "path",
    [
        "/<script>alert(1)</script>",
        "/c/<script>",
        "/c/x/as",
        "/c/x/m/<img>",
        "/compare",
        "/assets/../x",
    ],
)
def test_errors_repeat_nothing_that_runs(site, path):
    with cannery.open_store("sqlite::memory:") as store:
        answer = site.answer(Asked(store, path, {"to": "<script>", "a": "<b>", "at": "<i>"}))
        assert 400 <= answer.status < 500
        assert not inspect(body_of(answer)).wrong


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(codec="utf-8") | st.sampled_from("<>\"'`[]()!|*_#&;:/\n "), max_size=120)
)
def test_any_text_as_markdown_has_only_listed_tags(text):
    inspector = Inspector()
    inspector.feed(str(markdown(text)))
    assert not inspector.wrong
    assert not inspector.scripts


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(ATTACKS[:50]), min_size=2, max_size=3),
    st.sampled_from(["", " ", "\n", "\n\n"]),
)
def test_attacks_one_behind_the_other_stay_text(attacks, between):
    inspector = Inspector()
    inspector.feed(str(markdown(between.join(attacks)[:5000])))
    assert not inspector.wrong
    assert not inspector.scripts


def test_every_answer_forbids_what_it_does_not_need(site):
    with cannery.open_store("sqlite::memory:") as store:
        for path in ("", ".json", "/nothing", "/assets/viewer.js"):
            headers = dict(site.answer(Asked(store, path)).headers)
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-resource-policy"] == "same-origin"
