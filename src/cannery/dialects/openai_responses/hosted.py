"""Hosted tools of Responses as requests define them; groups of functions; tools that a client runs.

Written against the types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cannery.dialects.openai_responses.hosted_items import (
    CLIENT_SEARCH,
    PREFIXES,
    read_block,
    write_use,
)
from cannery.dialects.openai_responses.settings import read_tool
from cannery.messages.hosted import (
    CodeExecution,
    FileSearch,
    ImageGeneration,
    McpServer,
    WebSearch,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    BEARER,
    HEADERS,
    LOCATION,
    TEXT,
    TEXTS,
    ClientTool,
    Form,
    Group,
    HostedTable,
    Tagged,
    ToolRow,
    by_type,
    take_text,
)

_GROUP = "namespace"
# A shell in the provider's container is not a client tool.
_CONTAINER_SHELL = "shell in a container"
_ALWAYS = '"always"'
# Image sizes, and their aspect ratios.
_ASPECTS = {"1024x1024": "1:1", "1536x1024": "3:2", "1024x1536": "2:3"}
_SIZES = {aspect: size for size, aspect in _ASPECTS.items()}


def _read_allowed(value: Any) -> tuple[str, ...] | None:
    """The allowed tools of a server, given as a list or as a filter."""
    if type(value) is not dict:
        return TEXTS.read(value)  # type: ignore[no-any-return]
    names = TEXTS.read(value.get("tool_names"))
    if names is not None:
        del value["tool_names"]
    return names  # type: ignore[no-any-return]


def _read_aspect(size: Any) -> str | None:
    return _ASPECTS.get(size) if type(size) is str else None


def _read_approval(value: Any) -> str | None:
    """The calls that need approval, as JSON; "" for none."""
    said = "" if value == "never" else write_json(value)
    if type(value) is dict:
        value.clear()
    return said


ROWS = (
    ToolRow(
        WebSearch,
        (
            *("web_search", "web_search_2025_08_26"),
            *("web_search_preview", "web_search_preview_2025_03_11"),
        ),
        {
            "allowed_domains": ("filters.allowed_domains", TEXTS),
            "location": ("user_location", LOCATION),
            "context_size": ("search_context_size", TEXT),
        },
        {},
        {
            "search_context_size": "medium",
            "external_web_access": True,
            "user_location": {"type": "approximate"},
            "search_content_types": ["text"],
        },
    ),
    ToolRow(
        CodeExecution,
        ("code_interpreter", _CONTAINER_SHELL),
        {},
        {"container": {"type": "auto"}},
        {"container.type": "auto"},
    ),
    ToolRow(
        McpServer,
        ("mcp",),
        {
            "label": ("server_label", TEXT),
            "url": ("server_url", TEXT),
            "authorization": ("authorization", TEXT),
            "headers": ("headers", HEADERS),
            "allowed_tools": ("allowed_tools", Form(_read_allowed, list)),
            "approval": ("require_approval", Form(_read_approval, decode_json)),
        },
        # No other API asks for approval before a call; this one does unless told otherwise.
        {"require_approval": "never"},
        {"defer_loading": False},
        ("label", "url"),
        assumed={"approval": _ALWAYS},
    ),
    ToolRow(
        FileSearch,
        ("file_search",),
        bound="its stores of files are known only to their own provider",
    ),
    ToolRow(
        ImageGeneration,
        ("image_generation",),
        {"aspect": ("size", Form(_read_aspect, _SIZES.get))},
        {},
        {
            **dict.fromkeys(("background", "moderation", "quality", "size", "action"), "auto"),
            "output_compression": 100,
            "output_format": "png",
            "partial_images": 0,
        },
    ),
)


def _split(value: Object) -> Iterator[Tagged]:
    for tag, inner, path in by_type(value):
        environment = inner.get("environment")
        is_hosted = type(environment) is dict and environment.get("type") != "local"
        if tag == "mcp" and "authorization" not in inner:
            token = BEARER.read(inner.get("headers"))
            if token is not None:
                inner["authorization"] = token
        if tag == "shell" and is_hosted:
            yield _CONTAINER_SHELL, inner, path
        elif tag == "tool_search" and inner.get("execution") == "client":
            yield CLIENT_SEARCH, inner, path
        else:
            yield tag, inner, path


# --- tools that the client runs ------------------------------------------------------------------

_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
_TEXT_LIST = {"type": "array", "items": _TEXT}


def _schema(required: list[str], **properties: Any) -> str:
    return write_json({"type": "object", "properties": properties, "required": required})


def _given(arguments: str) -> Object:
    """The arguments of a call as an object; any other value stays text."""
    try:
        value = decode_json(arguments or "{}")
    except ValueError:
        value = None
    return value if type(value) is dict else {"input": arguments}


def _item(identifier: str, tag: str, **fields: Any) -> tuple[str, Object]:
    code = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()[:32]
    own = {"type": tag, "id": f"{PREFIXES[tag]}_{code}", "call_id": identifier}
    return tag, {**own, "status": "completed", **fields}


def _make_shell(identifier: str, arguments: str) -> tuple[str, Object]:
    given = _given(arguments)
    commands = given.get("commands")
    if type(commands) is not list:
        commands = [str(given.get("command", given.get("input", "")))]
    limits = {key: given.get(key) for key in ("timeout_ms", "max_output_length")}
    return _item(identifier, "shell_call", action={"commands": commands, **limits})


def _make_local_shell(identifier: str, arguments: str) -> tuple[str, Object]:
    given = _given(arguments)
    command = given.pop("command", given.get("input", []))
    listed = command if type(command) is list else ["bash", "-lc", str(command)]
    known = ("env", "timeout_ms", "user", "working_directory")
    more = {key: given[key] for key in known if given.get(key) is not None}
    action = {"type": "exec", "command": listed, "env": {}, **more}
    return _item(identifier, "local_shell_call", action=action)


def _make_patch(identifier: str, arguments: str) -> tuple[str, Object]:
    given = _given(arguments)
    keys = ("type", "path", "diff")
    operation = {key: given[key] for key in keys if type(given.get(key)) is str}
    if operation.get("type") == "delete_file":
        operation.pop("diff", None)
    return _item(identifier, "apply_patch_call", operation=operation)


def _make_computer(identifier: str, arguments: str) -> tuple[str, Object]:
    given = _given(arguments)
    actions = given.get("actions")
    acted = {"actions": actions} if type(actions) is list else {"action": given}
    return _item(identifier, "computer_call", pending_safety_checks=[], **acted)


def _make_search(identifier: str, arguments: str) -> tuple[str, Object]:
    given = _given(arguments)
    return _item(identifier, "tool_search_call", arguments=given, execution="client")


def _describe_search(value: Object) -> tuple[str, str]:
    description = take_text(value, "description") or "Find tools that are not offered yet."
    schema = value.pop("parameters", None)
    if type(schema) is not dict:
        schema = {"type": "object", "properties": {"query": _TEXT}}
    return description, write_json(schema)


_ACTIONS = [
    *("click", "double_click", "drag", "keypress", "move"),
    *("screenshot", "scroll", "type", "wait"),
]
_ACTION: dict[str, Any] = {
    "type": {"type": "string", "enum": _ACTIONS},
    "x": _WHOLE,
    "y": _WHOLE,
    "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
    "scroll_x": _WHOLE,
    "scroll_y": _WHOLE,
    "text": _TEXT,
    "keys": _TEXT_LIST,
    "path": {
        "type": "array",
        "items": {"type": "object", "properties": {"x": _WHOLE, "y": _WHOLE}},
    },
}
_COMPUTER = "Use the mouse, the keyboard and the screen of a computer."


def _describe_computer(value: Object) -> tuple[str, str]:
    width, height = value.pop("display_width", None), value.pop("display_height", None)
    system = take_text(value, "environment")
    about = f" It has {width} x {height} pixels and runs {system}."
    return _COMPUTER + about, _schema(["type"], **_ACTION)


CLIENTS = (
    ClientTool(
        ("shell",),
        "shell",
        "Run shell commands, and get what each of them prints.",
        _schema(["commands"], commands=_TEXT_LIST, timeout_ms=_WHOLE, max_output_length=_WHOLE),
        ("environment",),
        _make_shell,
    ),
    ClientTool(
        ("local_shell",),
        "local_shell",
        "Run a command, given as its words, on the user's machine.",
        _schema(
            ["command"],
            command=_TEXT_LIST,
            env={"type": "object", "additionalProperties": _TEXT},
            timeout_ms=_WHOLE,
            user=_TEXT,
            working_directory=_TEXT,
        ),
        (),
        _make_local_shell,
    ),
    ClientTool(
        ("apply_patch",),
        "apply_patch",
        "Create, update or delete a file; an update or a new file is given as a diff.",
        _schema(
            ["type", "path"],
            type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            path=_TEXT,
            diff=_TEXT,
        ),
        (),
        _make_patch,
    ),
    ClientTool(
        ("computer",),
        "computer",
        _COMPUTER,
        _schema(
            ["actions"],
            actions={
                "type": "array",
                "items": {"type": "object", "properties": _ACTION, "required": ["type"]},
            },
        ),
        (),
        _make_computer,
    ),
    ClientTool(
        ("computer_use_preview",),
        "computer",
        _COMPUTER,
        "{}",
        (),
        _make_computer,
        _describe_computer,
    ),
    ClientTool(
        (CLIENT_SEARCH,), "tool_search", "", "{}", ("execution",), _make_search, _describe_search
    ),
)


# --- groups --------------------------------------------------------------------------------------


def _read_group(_: str, value: Object) -> Group | None:
    """Take the functions of a group out of its definition."""
    name, items = value.pop("name", None), value.pop("tools", None)
    if type(name) is not str:
        return None
    tools, dropped = [], []
    for position, item in enumerate(items if type(items) is list else ()):
        path = f".tools[{position}]"
        kind = str(item.get("type") if type(item) is dict else item)
        tool = read_tool(item) if type(item) is dict else None
        if tool is None or isinstance(tool.hosted, str):
            # Its field values are not reported, because they may hold keys.
            dropped.append((kind, path))
        else:
            tools.append((tool, path))
    return Group(name, tuple(tools), tuple(dropped))


HOSTED = HostedTable(
    rows=ROWS,
    clients=CLIENTS,
    split=_split,
    read_block=read_block,
    write_use=write_use,
    # A choice of the server must name it.
    chosen=lambda tool: None if tool["type"] == "mcp" else tool["type"],
    pairs=frozenset({"shell_call"}),
    groups={_GROUP: _read_group},
    group_field=_GROUP,
    read_tool=read_tool,
)
