"""Hosted tools of Interactions: a tool names its type, and a call and its outcome are two steps.

Searches and page reads are signed by this provider, so none from elsewhere can be sent; code and calls of MCP servers
can. Search results come as HTML only. Written against google-genai 3.3.0 (2026-11-18).
"""

from __future__ import annotations

import hashlib
from typing import Any

from cannery.families.gemini.actions import computer_row, read_actions
from cannery.messages.hosted import (
    FAILED,
    CodeExecution,
    Fetch,
    FileQuery,
    FileSearch,
    HostedCall,
    HostedResult,
    HostedUse,
    ImageGeneration,
    McpCall,
    McpServer,
    Output,
    Run,
    Search,
    Source,
    Sources,
    WebFetch,
    WebSearch,
)
from cannery.messages.json_text import write_json
from cannery.wire.arguments import call_input, input_text
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    BEARER,
    COUNT,
    HEADERS,
    TEXT,
    TEXTS,
    Form,
    HostedTable,
    Outcome,
    Setting,
    Told,
    ToolRow,
    Written,
    shows_images,
    take_text,
    with_type,
)


def _read_allowed(value: Any) -> tuple[str, ...] | None:
    only = value[0] if type(value) is list and len(value) == 1 else None
    names = only.get("tools") if type(only) is dict and only.keys() == {"tools"} else None
    is_texts = type(names) is list and names and all(type(name) is str for name in names)
    return tuple(names) if is_texts else None  # type: ignore[arg-type]


_MODALITIES = "response_modalities"
_COMPUTER = computer_row("computer_use", "environment", "excluded_predefined_functions")
ROWS = (
    ToolRow(WebSearch, ("google_search",), quiet={"search_types": ["web_search"]}),
    ToolRow(WebFetch, ("url_context",)),
    ToolRow(CodeExecution, ("code_execution",)),
    _COMPUTER,
    # Here images are an output modality, which no other model has.
    ToolRow(ImageGeneration, (_MODALITIES,), models="image"),
    ToolRow(
        McpServer,
        ("mcp_server",),
        {
            "label": ("name", TEXT),
            "url": ("url", TEXT),
            "authorization": ("headers", BEARER),
            "headers": ("headers", HEADERS),
            "allowed_tools": (
                "allowed_tools",
                Form(_read_allowed, lambda names: [{"tools": list(names)}]),
            ),
        },
        needs=("label", "url"),
    ),
    ToolRow(
        FileSearch,
        ("file_search",),
        {
            "stores": ("file_search_store_names", TEXTS),
            "max_results": ("top_k", COUNT),
            "filter": ("metadata_filter", TEXT),
        },
        home="google",
        bound="its stores of files are known only to their own provider",
    ),
)


# --- steps ---------------------------------------------------------------------------------------


def _read_block(tag: str, step: Object) -> Told | None:
    kind, _, side = tag.rpartition("_")
    if kind in _CALLS and side == "call":
        call = _read_call(kind, step)
        return None if call is None else HostedUse(take_text(step, "id") or "", call)
    if kind in _CALLS and side == "result":
        failed = step.pop("is_error", None) is True
        identifier = take_text(step, "call_id") or ""
        result = _read_result(kind, step)
        for known in ("name", "server_name"):
            step.pop(known, None)
        return Outcome(identifier, result, FAILED if failed else None)
    return None


def _read_call(kind: str, step: Object) -> HostedCall | None:
    given = step.get("arguments")
    held: Object = given if type(given) is dict else {}
    match kind:
        case "google_search":
            return Search(_texts(held, "queries"))
        case "url_context":
            return Fetch(_texts(held, "urls"))
        case "code_execution":
            code = take_text(held, "code")
            return None if code is None else Run(code, take_text(held, "language") or "python")
        case "mcp_server_tool":
            server, name = take_text(step, "server_name"), take_text(step, "name")
            step.pop("arguments", None)
            return McpCall(server or "", name or "", input_text(held))
        case _:
            return FileQuery()


def _texts(held: Object, key: str) -> tuple[str, ...]:
    found = held.pop(key, None)
    return tuple(map(str, found)) if type(found) is list else ()


def _read_result(kind: str, step: Object) -> HostedResult | None:
    """Take the outcome of a call; non-text parts of a result stay, and so does the reason for an unreadable page."""
    result = step.get("result")
    parts = [item for item in result if type(item) is dict] if type(result) is list else []
    if kind not in ("code_execution", "mcp_server_tool"):
        urls = [take_text(item, "url") for item in parts]
        for item in parts:
            if item.get("status") == "success":
                del item["status"]
        return Sources(tuple(Source(url) for url in urls if url is not None))
    texts = [take_text(item, "text") for item in parts if item.get("type") == "text"]
    if texts:
        for item in parts:
            if item.keys() == {"type"}:
                item.clear()
        return Output("\n".join(text or "" for text in texts))
    step.pop("result", None)
    words = result if type(result) is str else "" if result is None else write_json(result)
    return Output(words)


_LANGUAGES = ("python", "bash")
_CALLS = frozenset(
    {"google_search", "url_context", "code_execution", "mcp_server_tool", "file_search"}
)


def _write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    call = use.call
    given: Any
    match call:
        case Run() if is_answer or call.language in _LANGUAGES:
            is_known = call.language in _LANGUAGES
            given = {"code": call.code, **({"language": call.language} if is_known else {})}
            return _written(use, "code_execution", _output(use), arguments=given)
        case McpCall():
            held = call_input(call.arguments, is_freeform=False)
            named: Object = {"name": call.name, "server_name": call.server, "arguments": held}
            return _written(use, "mcp_server_tool", _output(use), **named)
        case Search() if is_answer:
            given = {"queries": list(call.queries)}
            return _written(use, "google_search", [], arguments=given)
        case Fetch() if is_answer:
            found = [{"url": url, "status": _status(use)} for url in call.urls]
            given = {"urls": list(call.urls)}
            return _written(use, "url_context", found, arguments=given)
        case _:
            return None


def _output(use: HostedUse) -> str:
    output = use.result if isinstance(use.result, Output) else Output(use.error or "")
    return output.text + output.errors


def _status(use: HostedUse) -> str:
    return "error" if use.has_failed else "success"


def _written(use: HostedUse, kind: str, result: Any, **call: Any) -> Written:
    """A call and its outcome, with an id of its own."""
    digest = hashlib.sha256(use.identifier.encode("utf-8", "replace")).hexdigest()[:8]
    asked: Object = {"type": f"{kind}_call", "id": digest, **call}
    told: Object = {"type": f"{kind}_result", "call_id": digest, "result": result}
    if use.has_failed and kind != "mcp_server_tool":
        told["is_error"] = True
    return (asked["type"], asked), (told["type"], told)


def _place(tag: str, value: Object) -> tuple[Object | None, Object]:
    if tag == _MODALITIES:
        return None, {tag: ["text", "image"]}
    return with_type(tag, value)


HOSTED = HostedTable(
    rows=ROWS,
    settings={_MODALITIES: Setting(_MODALITIES, shows_images)},
    place=_place,
    read_block=_read_block,
    write_use=_write_use,
    groups={"computer_use": lambda _, value: read_actions(_COMPUTER, value)},
    pairs=frozenset(f"{kind}_call" for kind in _CALLS),
    # https://ai.google.dev/gemini-api/docs/tool-combination, 2026-11-18.
    apart=r"gemini-[12]\b",
)
