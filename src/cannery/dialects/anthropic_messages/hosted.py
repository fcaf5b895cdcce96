"""Hosted tools of Messages: server tools and their blocks, MCP servers, and the tools that a client runs.

Web search results carry encrypted content that only this provider produces, so results from elsewhere cannot be sent;
responses show them without it. Written against the types of anthropic 2.8.0 (2026-11-15).
"""

from __future__ import annotations

import hashlib
from typing import Any

from cannery.dialects.anthropic_messages.toolsets import TOOLSETS, read_toolset
from cannery.messages.hosted import (
    FAILED,
    CodeExecution,
    Fetch,
    HostedUse,
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
    COUNT,
    LOCATION,
    TEXT,
    TEXTS,
    ClientTool,
    Found,
    HostedTable,
    Outcome,
    Setting,
    Told,
    ToolRow,
    Written,
    take_text,
    with_type,
)

_MCP = "mcp_servers"
_QUIET = {"allowed_callers": ["direct"], "defer_loading": False, "strict": False}
_DOMAINS = {
    "max_uses": ("max_uses", COUNT),
    "allowed_domains": ("allowed_domains", TEXTS),
    "blocked_domains": ("blocked_domains", TEXTS),
}
ROWS = (
    ToolRow(
        WebSearch,
        ("web_search_20250305", "web_search_20260209", "web_search_20260318"),
        {**_DOMAINS, "location": ("user_location", LOCATION)},
        {"name": "web_search"},
        _QUIET,
    ),
    ToolRow(
        WebFetch,
        (
            "web_fetch_20250910",
            "web_fetch_20260209",
            "web_fetch_20260309",
            "web_fetch_20260318",
        ),
        _DOMAINS,
        {"name": "web_fetch"},
        {**_QUIET, "citations": {"enabled": False}},
    ),
    ToolRow(
        CodeExecution,
        (
            "code_execution_20250825",
            "code_execution_20250522",
            "code_execution_20260120",
            "code_execution_20260521",
        ),
        {},
        {"name": "code_execution"},
        _QUIET,
    ),
    ToolRow(
        McpServer,
        (_MCP,),
        {
            "label": ("name", TEXT),
            "url": ("url", TEXT),
            "authorization": ("authorization_token", TEXT),
            "allowed_tools": ("tool_configuration.allowed_tools", TEXTS),
        },
        {"type": "url"},
        {},
        ("label", "url"),
    ),
)

# --- tools that the client runs, with the parameters that their documentation gives ---------------

_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
_POINT = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_DEFINED = ("type", "allowed_callers", "input_examples")


def _schema(required: list[str], **properties: Any) -> str:
    return write_json({"type": "object", "properties": properties, "required": required})


_EDITS = {
    "path": _TEXT,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": _WHOLE,
    "insert_text": _TEXT,
    "view_range": _POINT,
}
_ACTIONS = [
    *("key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down"),
    *("left_mouse_up", "left_click", "left_click_drag", "right_click", "middle_click"),
    *("double_click", "triple_click", "scroll", "wait", "screenshot", "zoom"),
]
_COMPUTER = "Use the mouse, the keyboard and the screen of a computer."
_COMPUTER_SCHEMA = _schema(
    ["action"],
    action={"type": "string", "enum": _ACTIONS},
    coordinate=_POINT,
    start_coordinate=_POINT,
    text=_TEXT,
    duration={"type": "number"},
    scroll_direction={"type": "string", "enum": ["up", "down", "left", "right"]},
    scroll_amount=_WHOLE,
    region={"type": "array", "items": _WHOLE, "minItems": 4, "maxItems": 4},
)


def _computer(value: Object) -> tuple[str, str]:
    """The description of a computer, with the size of its display, which the model must know."""
    width, height = value.pop("display_width_px", None), value.pop("display_height_px", None)
    if type(width) is not int or type(height) is not int:
        return _COMPUTER, _COMPUTER_SCHEMA
    return f"{_COMPUTER} The display has {width} x {height} pixels.", _COMPUTER_SCHEMA


CLIENTS = (
    ClientTool(
        ("bash_20250124", "bash_20241022"),
        "bash",
        "Run commands in a bash shell that keeps its state between calls.",
        _schema([], command=_TEXT, restart={"type": "boolean"}),
        _DEFINED,
    ),
    ClientTool(
        ("text_editor_20250728", "text_editor_20250429"),
        "str_replace_based_edit_tool",
        "View, create and edit text files.",
        _schema(
            ["command", "path"],
            command={"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            **_EDITS,
        ),
        (*_DEFINED, "max_characters"),
    ),
    ClientTool(
        ("text_editor_20250124", "text_editor_20241022"),
        "str_replace_editor",
        "View, create and edit text files.",
        _schema(
            ["command", "path"],
            command={
                "type": "string",
                "enum": ["view", "create", "str_replace", "insert", "undo_edit"],
            },
            **_EDITS,
        ),
        _DEFINED,
    ),
    ClientTool(
        ("memory_20250818",),
        "memory",
        "Keep notes in files below /memories that outlast this conversation.",
        _schema(
            ["command"],
            command={
                "type": "string",
                "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            },
            old_path=_TEXT,
            new_path=_TEXT,
            **_EDITS,
        ),
        _DEFINED,
    ),
    ClientTool(
        ("computer_20250124", "computer_20251124", "computer_20241022"),
        "computer",
        _COMPUTER,
        _COMPUTER_SCHEMA,
        (*_DEFINED, "display_number", "enable_zoom"),
        describe=_computer,
    ),
)


# --- definitions ---------------------------------------------------------------------------------


def _gather(found: list[Found]) -> list[Found]:
    """Move a toolset's settings for a server's tools to the server's definition."""
    servers = {str(each.value.get("name")): each for each in found if each.tag == _MCP}
    kept = []
    for each in found:
        server = servers.get(str(each.value.get("mcp_server_name")))
        if each.tag != "mcp_toolset" or server is None:
            kept.append(each)
            continue
        each.value.pop("mcp_server_name")
        allowed = _allowed(each.value)
        if allowed:
            server.value["tool_configuration"] = {"allowed_tools": allowed}
        # The rest of the toolset is lost with the server's own fields.
        server.value.update(
            {f"mcp_toolset.{key}": held for key, held in each.value.items() if held}
        )
    return kept


def _allowed(toolset: Object) -> list[str]:
    """The only tools that a toolset enables; none if it enables all."""
    default, configs = toolset.get("default_config"), toolset.get("configs")
    if default != {"enabled": False} or type(configs) is not dict:
        return []
    if any(config != {"enabled": True} for config in configs.values()):
        return []
    del toolset["default_config"], toolset["configs"]
    return list(configs)


def _place(tag: str, value: Object) -> tuple[Object | None, Object]:
    """The place of a tool; a server has its own field, and a tool that stands for its tools."""
    if tag != _MCP:
        return with_type(tag, value)
    toolset: Object = {"type": "mcp_toolset", "mcp_server_name": value["name"]}
    allowed = value.pop("tool_configuration", {}).get("allowed_tools")
    if allowed:
        toolset["default_config"] = {"enabled": False}
        toolset["configs"] = {name: {"enabled": True} for name in allowed}
    return toolset, {_MCP: [value]}


# --- blocks --------------------------------------------------------------------------------------

_LANGUAGES = {"code_execution": "python", "bash_code_execution": "bash"}


def _read_block(tag: str, block: Object) -> Told | None:
    if tag == "server_tool_use":
        return _read_call(block)
    if tag == "mcp_tool_use":
        return _read_mcp(block)
    if tag not in _RESULTS:
        return None
    identifier = take_text(block, "tool_use_id")
    content = block.get("content")
    if identifier is None:
        return None
    if _is_direct(block):
        del block["caller"]
    if type(content) is dict and str(content.get("type")).endswith("_error"):
        del content["type"]
        word = take_text(content, "error_code")
        # The message says the same in a sentence.
        return Outcome(identifier, None, word or "error")
    result = _RESULTS[tag](block)
    return None if result is None else Outcome(identifier, *result)


def _is_direct(block: Object) -> bool:
    return block.get("caller") == {"type": "direct"}


def _read_call(block: Object) -> HostedUse | None:
    identifier, given, name = block.get("id"), block.get("input"), block.get("name")
    if not (type(identifier) is str and type(name) is str and type(given) is dict):
        return None
    call: Any = None
    if name == "web_search":
        query = take_text(given, "query")
        call = None if query is None else Search((query,))
    elif name == "web_fetch":
        url = take_text(given, "url")
        call = None if url is None else Fetch((url,))
    elif name in _LANGUAGES:
        code = take_text(given, "command" if name == "bash_code_execution" else "code")
        call = None if code is None else Run(code, _LANGUAGES[name])
    elif name == "text_editor_code_execution":
        call = Run(write_json(given), "json")
        given.clear()
    if call is None:
        return None
    del block["id"], block["name"]
    if _is_direct(block):
        del block["caller"]
    return HostedUse(identifier, call)


def _read_mcp(block: Object) -> HostedUse | None:
    identifier, name = take_text(block, "id"), take_text(block, "name")
    server = take_text(block, "server_name")
    if identifier is None or name is None or server is None:
        return None
    given = block.pop("input", None)
    return HostedUse(identifier, McpCall(server, name, input_text(given or {})))


_Result = tuple[Any, str | None]


def _read_found(block: Object) -> _Result | None:
    content = block.get("content")
    if type(content) is not list:
        return None
    return Sources(tuple(_read_source(item) for item in content)), None


def _read_source(item: Any) -> Source:
    if type(item) is not dict:
        return Source()
    item.pop("type", None)
    return Source(
        take_text(item, "url"), take_text(item, "title"), None, take_text(item, "page_age")
    )


def _read_page(block: Object) -> _Result | None:
    content = block.get("content")
    if type(content) is not dict:
        return None
    content.pop("type", None)
    document = content.get("content")
    source = document.get("source") if type(document) is dict else None
    words = None
    if type(source) is dict and source.get("type") == "text":
        words = take_text(source, "data")
        source.clear()
    title = take_text(document, "title")
    if type(document) is dict:
        document.pop("type", None)
    age = take_text(content, "retrieved_at")
    return Sources((Source(take_text(content, "url"), title, words, age),)), None


def _read_output(block: Object) -> _Result | None:
    content = block.get("content")
    if type(content) is not dict:
        return None
    content.pop("type", None)
    code = content.pop("return_code", None)
    printed, errors = take_text(content, "stdout"), take_text(content, "stderr")
    made = content.get("content")
    files = [
        _read_made(item) for item in (made if type(made) is list else ()) if type(item) is dict
    ]
    told = code if type(code) is int else None
    return Output(printed or "", errors or "", told, tuple(files)), None


def _read_made(item: Object) -> Source:
    """Read a file that a program produced; its id is known only to this provider."""
    item.pop("type", None)
    return Source(file=take_text(item, "file_id"))


def _read_edit(block: Object) -> _Result | None:
    content = block.get("content")
    if type(content) is not dict:
        return None
    content.pop("type", None)
    told = write_json({key: held for key, held in content.items() if held is not None})
    content.clear()
    return Output(told), None


def _read_answer(block: Object) -> _Result | None:
    content = block.pop("content", "")
    items = content if type(content) is list else [content]
    texts = [item.get("text") if type(item) is dict else item for item in items]
    words = "\n".join(text for text in texts if type(text) is str)
    return Output(words), FAILED if block.pop("is_error", None) is True else None


_RESULTS = {
    "web_search_tool_result": _read_found,
    "web_fetch_tool_result": _read_page,
    "code_execution_tool_result": _read_output,
    "bash_code_execution_tool_result": _read_output,
    "text_editor_code_execution_tool_result": _read_edit,
    "mcp_tool_result": _read_answer,
}


def _write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    call = use.call
    match call:
        case Search():
            return _write_search(use, call) if is_answer else None
        case Run() if call.language != "json":
            return _write_run(use, call)
        case McpCall():
            return _write_mcp(use, call)
        case _:
            return None


def _identifier(use: HostedUse, prefix: str) -> str:
    """A call id in the form of this server."""
    if use.identifier.startswith(prefix):
        return use.identifier
    code = hashlib.sha256(use.identifier.encode("utf-8", "replace")).hexdigest()
    return f"{prefix}{code[:24]}"


def _pair(
    use: HostedUse, name: str, given: Object, content: Any, *, error: str | None = None
) -> tuple[tuple[str, Object], ...]:
    """A call and its result."""
    identifier = _identifier(use, "srvtoolu_")
    call = {"type": "server_tool_use", "id": identifier, "name": name, "input": given}
    tag = f"{name}_tool_result"
    if error is not None:
        content = {"type": f"{tag}_error", "error_code": error}
    result = {"type": tag, "tool_use_id": identifier, "content": content}
    return ("server_tool_use", call), (tag, result)


def _write_search(use: HostedUse, call: Search) -> Written:
    items = use.result.items if isinstance(use.result, Sources) else ()
    content = [
        {
            "type": "web_search_result",
            "url": item.url or "",
            "title": item.title or "",
            # Only this provider can produce it: a client sees the source, and no server accepts it back.
            "encrypted_content": "",
            "page_age": item.age,
        }
        for item in items
    ]
    error = None if use.error is None else "unavailable"
    return _pair(use, "web_search", {"query": "; ".join(call.queries)}, content, error=error)


def _write_run(use: HostedUse, call: Run) -> Written:
    output = use.result if isinstance(use.result, Output) else Output()
    name, key = "code_execution", "code"
    if call.language == "bash":
        name, key = "bash_code_execution", "command"
    failed = use.error is not None
    content = {
        "type": f"{name}_result",
        "stdout": output.text,
        "stderr": output.errors,
        "return_code": output.exit_code if output.exit_code is not None else int(failed),
        "content": [],
    }
    error = "unavailable" if failed and use.result is None else None
    return _pair(use, name, {key: call.code}, content, error=error)


def _write_mcp(use: HostedUse, call: McpCall) -> Written:
    identifier = _identifier(use, "mcptoolu_")
    asked: Object = {
        "type": "mcp_tool_use",
        "id": identifier,
        "name": call.name,
        "server_name": call.server,
        "input": call_input(call.arguments, is_freeform=False),
    }
    words = (use.result.text if isinstance(use.result, Output) else "") or use.error or ""
    answered = {
        "type": "mcp_tool_result",
        "tool_use_id": identifier,
        "is_error": use.error is not None,
        # The server refuses text without a visible character.
        "content": [{"type": "text", "text": words}] if words.strip() else [],
    }
    return ("mcp_tool_use", asked), ("mcp_tool_result", answered)


HOSTED = HostedTable(
    rows=ROWS,
    clients=CLIENTS,
    settings={_MCP: Setting(_MCP)},
    gather=_gather,
    place=_place,
    read_block=_read_block,
    write_use=_write_use,
    chosen=lambda tool: tool.get("name"),
    groups=dict.fromkeys(TOOLSETS, read_toolset),
    group_field="toolset_name",
    pairs=frozenset({"server_tool_use", "mcp_tool_use"}),
)
