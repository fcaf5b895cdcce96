"""Hosted tools of Responses: a call and what came of it are one item; groups of functions; tools that a client runs.

A code interpreter runs in a container of this provider, so that no such call from elsewhere can be sent; answers show
it with an empty container id. Written against the types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cannery.dialects.openai_responses.settings import read_tool
from cannery.messages.content import new_data, new_image
from cannery.messages.hosted import (
    CodeExecution,
    Fetch,
    FileQuery,
    FileSearch,
    HostedUse,
    ImageGeneration,
    McpCall,
    McpServer,
    Output,
    Run,
    Search,
    Source,
    Sources,
    WebSearch,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.payload import new_location
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    LOCATION,
    TEXT,
    TEXTS,
    ClientCall,
    ClientResult,
    ClientTool,
    HostedTable,
    MoreTools,
    Tagged,
    Told,
    ToolRow,
    Written,
    by_type,
    take_text,
)
from cannery.wire.media import split_data_url

_GROUP = "namespace"
# A shell in a container of the provider is no tool of the client.
_CONTAINER_SHELL = "shell in a container"
# A search among tools that the client makes.
_CLIENT_SEARCH = "tool_search of the client"
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
        CodeExecution, ("code_interpreter", _CONTAINER_SHELL), {}, {"container": {"type": "auto"}}
    ),
    ToolRow(
        McpServer,
        ("mcp",),
        {
            "label": ("server_label", TEXT),
            "url": ("server_url", TEXT),
            "authorization": ("authorization", TEXT),
            "allowed_tools": ("allowed_tools", TEXTS),
        },
        # No other API asks for approval before a call.
        {"require_approval": "never"},
        {"defer_loading": False},
        ("label", "url"),
    ),
    ToolRow(
        FileSearch,
        ("file_search",),
        bound="its stores of files are known only to their own provider",
    ),
    ToolRow(
        ImageGeneration,
        ("image_generation",),
        {},
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
        if tag == "shell" and is_hosted:
            yield _CONTAINER_SHELL, inner, path
        elif tag == "tool_search" and inner.get("execution") == "client":
            yield _CLIENT_SEARCH, inner, path
        else:
            yield tag, inner, path


# --- tools that the client runs ------------------------------------------------------------------

_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
_TEXT_LIST = {"type": "array", "items": _TEXT}


def _schema(required: list[str], **properties: Any) -> str:
    return write_json({"type": "object", "properties": properties, "required": required})


def _given(arguments: str) -> Object:
    """The arguments of a call as an object; anything else as the text that it is."""
    try:
        value = decode_json(arguments or "{}")
    except ValueError:
        value = None
    return value if type(value) is dict else {"input": arguments}


def _item(identifier: str, tag: str, **fields: Any) -> tuple[str, Object]:
    code = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()[:32]
    own = {"type": tag, "id": f"{_PREFIXES[tag]}_{code}", "call_id": identifier}
    return tag, {**own, "status": "completed", **fields}


_PREFIXES = {
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "computer_call": "cu",
    "tool_search_call": "tsc",
    "web_search_call": "ws",
    "code_interpreter_call": "ci",
    "file_search_call": "fs",
    "mcp_call": "mcp",
}


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
        (_CLIENT_SEARCH,), "tool_search", "", "{}", ("execution",), _make_search, _describe_search
    ),
)


# --- items ---------------------------------------------------------------------------------------


def _read_block(tag: str, item: Object) -> Told | None:
    read = _ITEMS.get(tag)
    return None if read is None else read(item)


def _call_id(item: Object) -> str | None:
    """Take the id that pairs a call and its output."""
    identifier = take_text(item, "call_id")
    own = item.get("id")
    return identifier or (own if type(own) is str else None)


def _client_call(tag: str, key: str, inner: tuple[str, ...] = ()) -> Any:
    """What reads a call of a client's tool, whose arguments are a field of it."""

    def read(item: Object) -> ClientCall | None:
        identifier, given = _call_id(item), item.get(key)
        if identifier is None or type(given) is not dict:
            return None
        del item[key]
        for name in inner:
            given.pop(name, None)
        arguments = {name: held for name, held in given.items() if held is not None}
        return ClientCall(identifier, tag, write_json(arguments))

    return read


def _read_shell(item: Object) -> Told | None:
    environment = item.pop("environment", None)
    if type(environment) is dict and environment.get("type") == "container_reference":
        action = item.pop("action", None)
        commands = action.get("commands") if type(action) is dict else None
        identifier = _call_id(item)
        if identifier is None or type(commands) is not list:
            return None
        return HostedUse(identifier, Run("\n".join(map(str, commands)), "bash"))
    return _client_call("shell", "action")(item)  # type: ignore[no-any-return]


def _read_computer(item: Object) -> ClientCall | None:
    actions = item.pop("actions", None)
    if type(actions) is list:
        identifier = _call_id(item)
        given = write_json({"actions": actions})
        return None if identifier is None else ClientCall(identifier, "computer", given)
    return _client_call("computer_use_preview", "action")(item)  # type: ignore[no-any-return]


def _read_search_call(item: Object) -> Told | None:
    if item.get("execution") != "client":
        return None
    del item["execution"]
    return _client_call(_CLIENT_SEARCH, "arguments")(item)  # type: ignore[no-any-return]


def _read_found_tools(item: Object) -> MoreTools | None:
    tools, identifier = item.pop("tools", None), _call_id(item)
    if type(tools) is not list:
        return None
    listed = tuple(tool for tool in tools if type(tool) is dict)
    is_client = item.pop("execution", None) == "client"
    result = None
    if is_client and identifier is not None:
        names = [
            {key: tool[key] for key in ("name", "description") if key in tool} for tool in listed
        ]
        result = ClientResult(identifier, new_data(write_json({"tools": names})))
    return MoreTools(listed, ".tools", result)


def _read_more_tools(item: Object) -> MoreTools | None:
    tools = item.pop("tools", None)
    if type(tools) is not list:
        return None
    return MoreTools(tuple(tool for tool in tools if type(tool) is dict), ".tools")


def _read_shell_output(item: Object) -> Told | None:
    identifier, output = _call_id(item), item.pop("output", None)
    if identifier is None:
        return None
    item.pop("max_output_length", None)
    return ClientResult(identifier, new_data(write_json({"output": output})))


def _read_text_output(item: Object) -> ClientResult | None:
    identifier, output = _call_id(item), take_text(item, "output")
    if identifier is None:
        return None
    return ClientResult(identifier, output or "", item.get("status") == "failed")


def _read_screenshot(item: Object) -> ClientResult | None:
    identifier, output = _call_id(item), item.get("output")
    url = take_text(output, "image_url") or ""
    if identifier is None or type(output) is not dict or not url:
        return None
    output.pop("type", None)
    inline = split_data_url(url)
    image = new_image(new_location("url", url), "") if inline is None else new_image(*inline[::-1])
    return ClientResult(identifier, image)


def _status_error(item: Object) -> str | None:
    return "the call failed" if item.get("status") == "failed" else None


def _read_web(item: Object) -> HostedUse | None:
    identifier, action = item.pop("id", None), item.get("action")
    if type(identifier) is not str or type(action) is not dict:
        return None
    kind = action.pop("type", None)
    sources = action.pop("sources", None)
    result = None
    if type(sources) is list:
        result = Sources(
            tuple(Source(take_text(one, "url")) for one in sources if type(one) is dict)
        )
    if kind == "search":
        query, queries = take_text(action, "query"), action.pop("queries", None)
        listed = queries if type(queries) is list and queries else [query or ""]
        call: Any = Search(tuple(map(str, listed)))
    else:
        call = Fetch((take_text(action, "url") or "",), take_text(action, "pattern"))
    return HostedUse(identifier, call, result, _status_error(item))


def _read_code(item: Object) -> HostedUse | None:
    identifier, code = item.pop("id", None), item.pop("code", None)
    if type(identifier) is not str or type(code) is not str:
        return None
    # A container is known only to its provider, and nothing is said by its name.
    item.pop("container_id", None)
    outputs = item.get("outputs")
    result = None
    if type(outputs) is list:
        logs = []
        for each in outputs:
            if type(each) is dict and each.get("type") == "logs":
                logs.append(take_text(each, "logs") or "")
                each.clear()
        result = Output("".join(logs))
    return HostedUse(identifier, Run(code), result, _status_error(item))


def _read_mcp(item: Object) -> HostedUse | None:
    identifier, name, server = (item.pop(key, None) for key in ("id", "name", "server_label"))
    if not (type(identifier) is str and type(name) is str and type(server) is str):
        return None
    call = McpCall(server, name, take_text(item, "arguments") or "{}")
    output, error = take_text(item, "output"), item.pop("error", None)
    result = None if output is None else Output(output)
    words = None if error is None else error if type(error) is str else write_json(error)
    return HostedUse(identifier, call, result, words)


def _read_files(item: Object) -> HostedUse | None:
    identifier, queries = item.pop("id", None), item.pop("queries", None)
    if type(identifier) is not str or type(queries) is not list:
        return None
    found, result = item.get("results"), None
    if type(found) is list:
        result = Sources(tuple(_read_file(one) for one in found))
    return HostedUse(identifier, FileQuery(tuple(map(str, queries))), result, _status_error(item))


def _read_file(found: Any) -> Source:
    name, text = take_text(found, "filename"), take_text(found, "text")
    return Source(None, name, text, None, take_text(found, "file_id"))


_ITEMS = {
    "web_search_call": _read_web,
    "code_interpreter_call": _read_code,
    "mcp_call": _read_mcp,
    "file_search_call": _read_files,
    "shell_call": _read_shell,
    "shell_call_output": _read_shell_output,
    "local_shell_call": _client_call("local_shell", "action", ("type",)),
    "local_shell_call_output": _read_text_output,
    "apply_patch_call": _client_call("apply_patch", "operation"),
    "apply_patch_call_output": _read_text_output,
    "computer_call": _read_computer,
    "computer_call_output": _read_screenshot,
    "tool_search_call": _read_search_call,
    "tool_search_output": _read_found_tools,
    "additional_tools": _read_more_tools,
}


# --- uses ----------------------------------------------------------------------------------------


def _write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    call = use.call
    status = "failed" if use.has_failed else "completed"
    match call:
        case Search():
            return _write_search(use, call, status)
        case Fetch() if len(call.urls) == 1:
            action = {"type": "open_page", "url": call.urls[0]}
            if call.pattern is not None:
                action = {"type": "find_in_page", "url": call.urls[0], "pattern": call.pattern}
            said = bool(
                isinstance(use.result, Sources) and any(one.text for one in use.result.items)
            )
            unsaid = ("what a page says is not shown here",) if said else ()
            return _written(use, "web_search_call", unsaid, status=status, action=action)
        case Run() if is_answer:
            return _write_run(use, call, status)
        case McpCall():
            output = use.result.text if isinstance(use.result, Output) else None
            named = {"server_label": call.server, "name": call.name}
            told = {"arguments": call.arguments or "{}", "output": output}
            error = None
            if use.error is not None:
                error = {"type": "mcp_tool_execution_error", "content": output or use.error}
            return _written(use, "mcp_call", (), **named, **told, error=error, status=status)
        case FileQuery():
            return _write_files(use, call, status)
        case _:
            return None


def _written(use: HostedUse, tag: str, unsaid: tuple[str, ...], **fields: Any) -> Written:
    prefix = f"{_PREFIXES[tag]}_"
    identifier = use.identifier
    if not identifier.startswith(prefix):
        code = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()
        identifier = f"{prefix}{code[:32]}"
    if use.error is not None and "error" not in fields:
        unsaid = (*unsaid, f"what went wrong was {use.error!r}")
    return Written(((tag, {"type": tag, "id": identifier, **fields}),), unsaid)


def _write_search(use: HostedUse, call: Search, status: str) -> Written:
    action: Object = {"type": "search", "query": call.queries[0] if call.queries else ""}
    action["queries"] = list(call.queries)
    unsaid: tuple[str, ...] = ()
    if isinstance(use.result, Sources):
        items = use.result.items
        action["sources"] = [{"type": "url", "url": one.url} for one in items if one.url]
        if any(one.title or one.text or one.age for one in items):
            unsaid = ("of the results only the addresses are said",)
    return _written(use, "web_search_call", unsaid, status=status, action=action)


def _write_run(use: HostedUse, call: Run, status: str) -> Written:
    outputs = None
    unsaid: list[str] = [] if call.language == "python" else [f"the code is {call.language}"]
    if isinstance(use.result, Output):
        result = use.result
        texts = [text for text in (result.text, result.errors) if text]
        outputs = [{"type": "logs", "logs": text} for text in texts]
        if result.exit_code:
            unsaid.append(f"the exit code was {result.exit_code}")
    fields = {"code": call.code, "container_id": "", "outputs": outputs, "status": status}
    return _written(use, "code_interpreter_call", tuple(unsaid), **fields)


def _write_files(use: HostedUse, call: FileQuery, status: str) -> Written:
    results = None
    if isinstance(use.result, Sources):
        results = [
            {"file_id": one.file or "", "filename": one.title or "", "text": one.text or ""}
            for one in use.result.items
        ]
    fields = {"queries": list(call.queries), "status": status, "results": results}
    return _written(use, "file_search_call", (), **fields)


HOSTED = HostedTable(
    rows=ROWS,
    clients=CLIENTS,
    split=_split,
    read_block=_read_block,
    write_use=_write_use,
    # The choice of a server has to name it.
    chosen=lambda tool: None if tool["type"] == "mcp" else tool["type"],
    pairs=frozenset({"shell_call"}),
    group=_GROUP,
    read_tool=read_tool,
)
