"""The OpenAPI document and the page that shows it, both generated from the routes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from msgspec.structs import replace

from cannery.gateway.routing import RESPONSES, Router, vendor_of
from cannery.wire.contract import Dialect, Route

_WORDS = {
    "generate": "Generate a reply of a model.",
    "stream": "Generate a reply of a model and stream it.",
    "count": "Count the tokens of a request.",
    "models": "List the available models.",
    "model": "One model.",
    "version": "The version of the API, which clients request.",
}
_OWN = {
    "/healthz": "Health: whether the process is alive.",
    "/readyz": "Readiness: whether the gateway can serve and record.",
    "/metrics": "Counters and histograms for Prometheus.",
    "/openapi.json": "This interface as an OpenAPI document.",
    "/docs": "This page.",
    "/ui": "The viewer: conversations as pages.",
}
_CONVERSATIONS = {
    "/v1/conversations": {
        "get": "List the conversations that the caller's key may see.",
        "post": "Create a conversation.",
    },
    "/v1/conversations/{conversation}": {
        "get": "A conversation.",
        "post": "Replace the metadata of a conversation.",
        "delete": "Delete a conversation.",
    },
    "/v1/conversations/{conversation}/items": {
        "get": "List the items of a conversation.",
        "post": "Add items to a conversation.",
    },
    "/v1/conversations/{conversation}/items/{item}": {"get": "One item of a conversation."},
}
_HEADERS = {
    "X-Cannery-Conversation": "The conversation to record the exchange in; the reply's header names the one used.",
    "X-Cannery-Loss-Policy": "allow, warn or strict: with strict, a lossy translation is refused with status 422.",
    "X-Request-Id": "An id for logs; generated if missing.",
}


def openapi(router: Router) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    paths: dict[str, Any] = {}
    for dialect, prefix, route in _endpoints(router):
        for path in (route.path, prefix + route.path):
            operations = paths.setdefault(path, {})
            operations.setdefault(route.method.lower(), _operation(dialect.name, route))
    for path, methods in _CONVERSATIONS.items():
        paths[path] = paths[f"/openai{path}"] = {
            method: _described(words, RESPONSES, path, has_body=method == "post")
            for method, words in methods.items()
        }
    for path, words in _OWN.items():
        paths[path] = {"get": {"summary": words, "tags": ["operations"], "responses": _OK}}
    info = {"title": "Cannery gateway", "version": version("cannery")}
    return {"openapi": "3.1.0", "info": info, "paths": dict(sorted(paths.items()))}


def _endpoints(router: Router) -> Iterator[tuple[Dialect, str, Route]]:
    """Every endpoint with its dialect and the prefix where it is too."""
    for dialect in router.dialects:
        for route in dialect.routes:
            yield dialect, f"/{vendor_of(dialect)}", route
        for variant in dialect.variants:
            for route in variant.routes:
                whole = replace(route, path=variant.base + route.path)
                yield dialect, f"/{variant.name}", whole


_OK = {"200": {"description": "The answer."}}


def _operation(dialect: str, route: Any) -> dict[str, Any]:
    words = _WORDS.get(route.kind, route.kind)
    return _described(words, dialect, route.path, has_body=route.method == "POST")


def _described(words: str, dialect: str, path: str, *, has_body: bool) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "header", "description": told, "schema": {"type": "string"}}
        for name, told in _HEADERS.items()
    ]
    for name in re.findall(r"{(\w+)}", path):
        where = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.append(where)
    operation: dict[str, Any] = {
        "summary": words,
        "tags": [dialect],
        "parameters": parameters,
        "responses": {**_OK, "default": {"description": "An error in the same dialect."}},
    }
    if has_body:
        content = {"application/json": {"schema": {"type": "object"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}
td{overflow-wrap:anywhere}
code{font-size:.9em}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8cf}}"""


def docs_page(router: Router) -> bytes:
    """A page for people; it needs no script and loads nothing."""
    rows = []
    for dialect, prefix, route in _endpoints(router):
        words = _WORDS.get(route.kind, route.kind)
        rows.append((dialect.name, f"{route.method} {route.path}", f"{prefix}{route.path}", words))
    rows += [
        (RESPONSES, f"{method.upper()} {path}", f"/openai{path}", words)
        for path, methods in _CONVERSATIONS.items()
        for method, words in methods.items()
    ]
    rows += [("", f"GET {path}", "", words) for path, words in _OWN.items()]
    head = "<tr><th>dialect<th>endpoint<th>also at<th>gives</tr>"
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}" for cell in row) + "</tr>" for row in rows)
    headers = "".join(
        f"<tr><td><code>{name}</code><td>{html.escape(words)}</tr>"
        for name, words in _HEADERS.items()
    )
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Cannery gateway</title>'
        f"<style>{_STYLE}</style><h1>Cannery gateway</h1>"
        '<p>Any client, any provider, every exchange recorded. <a href="/openapi.json">OpenAPI</a></p>'
        f"<h2>Endpoints</h2><table>{head}{body}</table>"
        f"<h2>Headers</h2><table>{headers}</table></html>"
    )
    return page.encode()


def _cell(text: str) -> str:
    shown = html.escape(text)
    return f"<code>{shown}</code>" if "/" in text else shown
