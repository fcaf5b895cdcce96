"""Every link inside the documents leads somewhere."""

import re
from urllib.parse import unquote, urlsplit

import pytest

from tests.house.sources import ROOT, documents, label

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(?P<text>.+?) *$", re.MULTILINE)


def prose(document):
    return FENCED.sub("", document.read_text(encoding="utf-8"))


def anchors(document):
    """The anchors that a forge makes from the headings of a page."""
    return {
        re.sub(r"[^\w\- ]", "", match["text"].lower()).replace(" ", "-")
        for match in HEADING.finditer(prose(document))
    }


def problem(document, target):
    link = urlsplit(target)
    if link.scheme:
        return None if link.scheme == "https" else "not https"
    path = (document.parent / unquote(link.path)).resolve() if link.path else document
    if not path.is_relative_to(ROOT):
        return "leaves the repository"
    if not path.exists():
        return "no such file"
    if link.fragment and path.suffix == ".md" and link.fragment not in anchors(path):
        return "no such heading"
    return None


@pytest.mark.parametrize("document", documents(), ids=label)
def test_links_resolve(document):
    targets = [match["target"] for match in LINK.finditer(prose(document))]

    assert {target: why for target in targets if (why := problem(document, target))} == {}


@pytest.mark.parametrize(
    "target, why",
    [
        ("docs/missing.md", "no such file"),
        ("../outside.md", "leaves the repository"),
        ("#no-such-heading", "no such heading"),
        ("http://example.com", "not https"),
        ("LICENSE", None),
    ],
)
def test_dead_link_is_noticed(target, why):
    assert problem(ROOT / "README.md", target) == why


def test_every_page_is_listed_in_the_index():
    docs = ROOT / "docs"
    listed = {
        (docs / match["target"].partition("#")[0]).resolve()
        for match in LINK.finditer(prose(docs / "README.md"))
    }
    pages = {page for page in docs.glob("*.md") if page.name != "README.md"}

    assert {page.name for page in pages - listed} == set()
