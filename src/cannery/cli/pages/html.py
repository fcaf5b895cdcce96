"""A conversation as one HTML file that needs nothing else and runs nothing.

Everything said is escaped. Only images of types that cannot carry scripts are shown, from the file itself; nothing is
loaded from anywhere, and a content security policy says so to the browser.
"""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from cannery.cli.canisters import content_text, heading, media_line, wording
from cannery.messages import (
    AnyCanister,
    Conversation,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    PartsContentClass,
    ReasoningContentClass,
)
from cannery.storage import Metadata

_SHOWN = ("image/png", "image/jpeg", "image/gif", "image/webp")
_STYLE = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin-bottom:0}.facts{opacity:.7}
article{border-left:4px solid #8888;margin:1rem 0;padding:.2rem 1rem}
h2{font-size:.85rem;margin:.2rem 0;text-transform:uppercase;letter-spacing:.04em;opacity:.75}
.text{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
img{max-width:100%}.user{border-color:#2a9d4a}.assistant{border-color:#1b8fb3}.supervisor{border-color:#a04fb8}
.document{border-color:#3a5fcd}.invocation,.result{border-color:#c98a00;background:#8881}.reasoning{opacity:.7}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_page(pages: list[tuple[Metadata, Conversation]]) -> str:
    """Some conversations on one page."""
    title = pages[0][0].title if len(pages) == 1 else f"{len(pages)} conversations"
    body = "\n".join(_section(metadata, conversation) for metadata, conversation in pages)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title or "Conversation")}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _section(metadata: Metadata, conversation: Conversation) -> str:
    facts = [metadata.id, metadata.created.strftime("%Y-%m-%d %H:%M UTC"), metadata.model or ""]
    facts += [f"#{tag}" for tag in metadata.tags]
    turns = "\n".join(_turn(index, canister) for index, canister in enumerate(conversation))
    shown = escape(" · ".join(filter(None, facts)))
    name = escape(metadata.title or "Conversation")
    return f'<section>\n<h1>{name}</h1>\n<p class="facts">{shown}</p>\n{turns}\n</section>'


def _turn(index: int, canister: AnyCanister) -> str:
    role = canister.role.value
    if isinstance(canister, InvocationCanisterClass):
        inner = f"<pre>{escape(canister.arguments_text)}</pre>"
    elif isinstance(canister.held, str):
        inner = _text(wording(canister))
    else:
        inner = _content(canister.held)
    kind = f"{role} reasoning" if isinstance(canister.held, ReasoningContentClass) else role
    title = f"<h2>{escape(heading(canister))}</h2>"
    return f'<article class="{kind}" id="m{index}">{title}{inner}</article>'


def _content(content: Any) -> str:
    if isinstance(content, PartsContentClass):
        return "".join(_content(part) for part in content.parts)
    if isinstance(content, ImageContentClass) and content.mime_type in _SHOWN:
        if isinstance(content.payload, Location):
            return _text(media_line(content))
        data = base64.b64encode(content.data).decode()
        alternative = escape(media_line(content), quote=True)
        return f'<img alt="{alternative}" src="data:{content.mime_type};base64,{data}">'
    return _text(content_text(content)) if hasattr(content, "kind") else ""


def _text(text: str) -> str:
    return f'<p class="text">{escape(text)}</p>' if text else ""
