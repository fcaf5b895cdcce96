"""The usual forms of Responses items, and the words for unusual ones.

Readers and writers share these: a reader keeps as residue what the usual form does not express. The ``form`` of a
residue is a list of words: ``list`` (the content was a list), ``empty``, ``null``, ``absent`` (no content at all),
``part`` (a part of a message that could be an item), ``made`` (an image that is an item), ``custom`` (the output of a
custom tool), ``bare`` (an item without an id), ``followed`` (reasoning with an item after it), ``answered`` (reasoning
of a response that only the server's store has whole), ``instructions``, ``input`` (the whole input was a string), and
``after:<id>``, the reasoning item before this one.
"""

from __future__ import annotations

import hashlib
from typing import Any

from cannery.dialects.openai_responses.settings import NAME
from cannery.messages.content import (
    BinaryContentStruct,
    Citation,
    FileContentClass,
    ImageContentClass,
    ReasoningContentClass,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.media import UNKNOWN_TYPE, base64_text, data_url, standard_base64

_AFTER = "after:"
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "function_call_output": "fco",
    "custom_tool_call_output": "ctco",
    "image_generation_call": "ig",
}
BARE, MADE, PART = "bare", "made", "part"
MADE_FORMATS = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "svg": "image/svg+xml",
}
MADE_WORDS = {mime_type: word for word, mime_type in MADE_FORMATS.items()}
_FILE_NAMES = {"application/pdf": "file.pdf", "text/plain": "file.txt"}
_NO_WORDS: frozenset[str] = frozenset()


def form_words(residue: Residue | None) -> frozenset[str]:
    """The words of a form."""
    if residue is None or residue.form is None:
        return _NO_WORDS
    return frozenset(residue.form.partition(_AFTER)[0].split())


def reasoning_before(residue: Residue | None) -> str | None:
    """The id of the reasoning item before this one."""
    if residue is None or residue.form is None:
        return None
    return residue.form.partition(_AFTER)[2] or None


def after(identifier: str | None) -> str:
    """The word that names the reasoning item before; always the last of a form."""
    return f"{_AFTER}{identifier}" if identifier else ""


def item_id(answer: str, kind: str, position: int) -> str:
    """An item id for an item of another dialect that needs one: the same on every run."""
    code = hashlib.sha256(f"{answer}/{position}".encode("utf-8", "replace")).hexdigest()
    return f"{_PREFIXES[kind]}_{code[:32]}"


def call_item(identifier: str, name: str, arguments: str, is_freeform: bool) -> Object:  # noqa: FBT001 - as a call has them
    """A call in the usual form, without the id that only a server generates."""
    if is_freeform:
        call = {"type": "custom_tool_call", "call_id": identifier, "name": name}
        return {**call, "input": arguments}
    call = {"type": "function_call", "call_id": identifier, "name": name}
    return {**call, "arguments": arguments}


def made_item(content: ImageContentClass) -> Object:
    """An image generation call in the usual form, without the id that only a server generates."""
    item: Object = {
        "type": "image_generation_call",
        "status": "completed",
        "result": base64_text(content.payload),
    }
    if content.mime_type in MADE_WORDS:
        item["output_format"] = MADE_WORDS[content.mime_type]
    return item


def reasoning_item(content: ReasoningContentClass) -> Object:
    """A reasoning item in the usual form, without the id that only a server generates."""
    item: Object = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in content.summaries],
    }
    if content.texts:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content.texts]
    if content.encrypted is not None:
        item["encrypted_content"] = content.encrypted
    return item


def write_citation(citation: Citation, length: int) -> Any:
    """An annotation: this dialect's own unchanged; any other without a span covers the whole text."""
    if citation.dialect == NAME:
        return decode_json(citation.raw)
    has_span = citation.start is not None and citation.end is not None
    if citation.url is None:
        place = citation.end if has_span else length
        # Only this provider assigns ids to its files.
        return {
            "type": "file_citation",
            "file_id": "",
            "filename": citation.title or "",
            "index": place,
        }
    return {
        "type": "url_citation",
        "start_index": citation.start if has_span else 0,
        "end_index": citation.end if has_span else length,
        "title": citation.title or "",
        "url": citation.url,
    }


def read_citation(item: Any) -> Citation:
    """An annotation; if it points to a page or a file, in terms that every dialect understands."""
    raw = write_json(item)
    kind = item.get("type") if type(item) is dict else None
    if kind not in ("url_citation", "file_citation", "container_file_citation"):
        return Citation(NAME, raw)
    url, title = item.get("url"), item.get("title", item.get("filename"))
    start, end = item.get("start_index"), item.get("end_index")
    return Citation(
        NAME,
        raw,
        url if type(url) is str else None,
        title if type(title) is str else None,
        None,
        start if type(start) is int else None,
        end if type(end) is int else None,
    )


def own_media(content: ImageContentClass | FileContentClass) -> Object:
    """An image or a file in this dialect's form: inline, by URL or by file id."""
    payload = content.payload
    is_image = isinstance(content, ImageContentClass)
    if not isinstance(payload, Location):
        source = {"image_url" if is_image else "file_data": data_url(content)}
    elif payload.kind == "file":
        source = {"file_id": payload.value}
    else:
        source = {"image_url" if is_image else "file_url": payload.value}
    if isinstance(content, ImageContentClass):
        return {"type": "input_image", "detail": "auto", **source}
    name = {} if content.name is None else {"filename": content.name}
    return {"type": "input_file", **name, **source}


def inline_file(content: BinaryContentStruct, name: str | None) -> Object:
    """A file of another dialect, inline."""
    mime_type = content.mime_type
    url = f"data:{mime_type or UNKNOWN_TYPE};base64,{standard_base64(content.payload)}"
    filename = name or _FILE_NAMES.get(mime_type, "file")
    return {"type": "input_file", "filename": filename, "file_data": url}
