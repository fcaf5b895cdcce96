"""Error pages, and the login page."""

from __future__ import annotations

from collections.abc import Iterator

import htpy
from htpy import a, button, div, form, h1, label, p, span

from cannery.viewer.addresses import ROOT, list_address
from cannery.viewer.pages.layout import document
from cannery.viewer.visible import one_line

_TITLES = {
    400: "Bad request",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    500: "Internal error",
    503: "The store is unavailable",
}


def problem_page(status: int, problem: str) -> Iterator[bytes]:
    """Render an error."""
    title = _TITLES.get(status, "That did not work")
    content = [
        div(".page")[
            div(".empty")[
                h1[title],
                p[one_line(problem, 600)],
                p[a(href=list_address())["All conversations"]],
            ]
        ]
    ]
    return document(title, content, kind="problem")


def key_page(problem: str, onward: str) -> Iterator[bytes]:
    """Render the page that requests a key of the gateway."""
    content = [
        div(".page")[
            div(".empty.key")[
                h1["A key is needed"],
                p["This gateway shows conversations to holders of its keys, each its own."],
                form(action=f"{ROOT}/login", method="post")[
                    htpy.input(type="hidden", name="onward", value=onward),
                    label[
                        span["Key"],
                        htpy.input(
                            name="secret",
                            type="password",
                            required=True,
                            autofocus=True,
                            autocomplete="current-password",
                        ),
                    ],
                    button(type="submit")["Open"],
                ],
                p(".bad", role="alert")[problem] if problem else None,
            ]
        ]
    ]
    return document("A key is needed", content, kind="problem")
