"""Items of hosted tools, both ways: a call and its outcome are one item.

A code interpreter runs in a container of this provider, so calls from elsewhere cannot be sent; responses show them
with an empty container id. Written against the types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

import hashlib
from typing import Any

from cannery.messages.content import new_data, new_image
from cannery.messages.hosted import (
    FAILED,
    Fetch,
    FileQuery,
    HostedUse,
    McpCall,
    Output,
    Run,
    Search,
    Source,
    Sources,
)
from cannery.messages.json_text import write_json
from cannery.messages.payload import new_location
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    ClientCall,
    ClientResult,
    Implied,
    MoreTools,
    Outcome,
    Told,
    Written,
    take_text,
)
from cannery.wire.media import split_data_url

# A tool search that the client performs.
CLIENT_SEARCH = "tool_search of the client"
# The prefixes of item ids.
PREFIXES = {
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


def read_block(tag: str, item: Object) -> Told | None:
    """Take the meaning of an item out of it."""
    read = _ITEMS.get(tag)
    return None if read is None else read(item)


def _call_id(item: Object) -> str | None:
    """Take the id that pairs a call and its output."""
    identifier = take_text(item, "call_id")
    own = item.get("id")
    return identifier or (own if type(own) is str else None)


def _client_call(tag: str, key: str, inner: tuple[str, ...] = ()) -> Any:
    """A reader for calls of a client tool, whose arguments are one field."""

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
    return _client_call(CLIENT_SEARCH, "arguments")(item)  # type: ignore[no-any-return]


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
    return FAILED if item.get("status") == "failed" else None


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
    # Only its provider knows a container, and its name carries no meaning.
    item.pop("container_id", None)
    outputs = item.get("outputs")
    result = None
    if type(outputs) is list:
        logs, files = [], []
        for each in outputs:
            kind = each.get("type") if type(each) is dict else None
            if kind == "logs":
                logs.append(take_text(each, "logs") or "")
            elif kind == "image":
                files.append(Source(take_text(each, "url")))
            if kind in ("logs", "image"):
                each.clear()
        result = Output("".join(logs), files=tuple(files))
    return HostedUse(identifier, Run(code), result, _status_error(item))


def _read_mcp(item: Object) -> HostedUse | None:
    identifier, name, server = (item.pop(key, None) for key in ("id", "name", "server_label"))
    if not (type(identifier) is str and type(name) is str and type(server) is str):
        return None
    call = McpCall(server, name, take_text(item, "arguments") or "{}")
    # The approval is an item of its own.
    item.pop("approval_request_id", None)
    output, error = take_text(item, "output"), item.pop("error", None)
    result = None if output is None else Output(output)
    words = None if error is None else error if type(error) is str else write_json(error)
    return HostedUse(identifier, call, result, words)


def _read_question(item: Object) -> HostedUse | None:
    """A call that waits for approval; no other API asks for one."""
    use = _read_mcp(item)
    if use is None:
        return None
    return HostedUse(use.identifier, use.call, None, "the user was asked for approval")


def _read_consent(item: Object) -> Told | None:
    identifier, is_granted = take_text(item, "approval_request_id"), item.pop("approve", None)
    item.pop("id", None)
    if identifier is None or type(is_granted) is not bool:
        return None
    if is_granted:
        # The call itself follows.
        return Implied("mcp", identifier)
    reason = take_text(item, "reason")
    return Outcome(
        identifier, None, f"the user refused: {reason}" if reason else "the user refused"
    )


def _read_listing(item: Object) -> Implied | None:
    """The tools of a server, which every API server requests by itself."""
    if item.get("error"):
        return None
    tools = item.get("tools")
    listed = (
        [tool.get("name") for tool in tools if type(tool) is dict] if type(tools) is list else []
    )
    text = f"[tools of {item.get('server_label')}: {', '.join(map(str, listed))}]"
    item.clear()
    return Implied("mcp", text=text)


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
    "mcp_approval_request": _read_question,
    "mcp_approval_response": _read_consent,
    "mcp_list_tools": _read_listing,
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


def write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    """A use as an item."""
    call = use.call
    status = "failed" if use.has_failed else "completed"
    match call:
        case Search():
            return _write_search(use, call, status)
        case Fetch() if len(call.urls) == 1:
            action = {"type": "open_page", "url": call.urls[0]}
            if call.pattern is not None:
                action = {"type": "find_in_page", "url": call.urls[0], "pattern": call.pattern}
            return _written(use, "web_search_call", status=status, action=action)
        case Run() if is_answer:
            return _write_run(use, call, status)
        case McpCall():
            output = use.result.text if isinstance(use.result, Output) else None
            named = {"server_label": call.server, "name": call.name}
            told = {"arguments": call.arguments or "{}", "output": output}
            error = None
            if use.error is not None:
                error = {"type": "mcp_tool_execution_error", "content": output or use.error}
            return _written(use, "mcp_call", **named, **told, error=error, status=status)
        case FileQuery():
            return _write_files(use, call, status)
        case _:
            return None


def _written(use: HostedUse, tag: str, **fields: Any) -> Written:
    prefix = f"{PREFIXES[tag]}_"
    identifier = use.identifier
    if not identifier.startswith(prefix):
        code = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()
        identifier = f"{prefix}{code[:32]}"
    return ((tag, {"type": tag, "id": identifier, **fields}),)


def _write_search(use: HostedUse, call: Search, status: str) -> Written:
    action: Object = {"type": "search", "query": call.queries[0] if call.queries else ""}
    action["queries"] = list(call.queries)
    if isinstance(use.result, Sources):
        urls = [one.url for one in use.result.items if one.url]
        action["sources"] = [{"type": "url", "url": url} for url in urls]
    return _written(use, "web_search_call", status=status, action=action)


def _write_run(use: HostedUse, call: Run, status: str) -> Written:
    outputs = None
    if isinstance(use.result, Output):
        result = use.result
        texts = [text for text in (result.text, result.errors) if text]
        outputs = [{"type": "logs", "logs": text} for text in texts]
        images = [one.url for one in result.files if one.url is not None]
        outputs += [{"type": "image", "url": url} for url in images]
    fields = {"code": call.code, "container_id": "", "outputs": outputs, "status": status}
    return _written(use, "code_interpreter_call", **fields)


def _write_files(use: HostedUse, call: FileQuery, status: str) -> Written:
    results = None
    if isinstance(use.result, Sources):
        results = [
            {"file_id": one.file or "", "filename": one.title or "", "text": one.text or ""}
            for one in use.result.items
        ]
    fields = {"queries": list(call.queries), "status": status, "results": results}
    return _written(use, "file_search_call", **fields)
