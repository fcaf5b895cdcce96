"""Server rules of OpenAI Responses.

Sources: docstrings of openai 3.49.0 and quoted server errors. `call_id` pairs a call with its
output (`id` for local_shell); a reasoning item goes with the item that follows it; ids that only
the server can mint keep their prefix.
Rules that rest on neither are listed in `server_rules.UNCONFIRMED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .findings import (
    OPENAI_NAME,
    count_breakpoints,
    file_data_is_legal,
    finding,
    image_url_is_legal,
    in_range,
    metadata_is_small,
    names_are_legal,
    names_are_unique,
    objects,
)

Body = dict[str, Any]
_ID_LIMIT = 64
_PAIRS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "computer_call_output": "computer_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
}
_CALLS = frozenset(_PAIRS.values())
# A search of the client's own tools may be answered by a plain function_call_output: recorded with gpt-5.6, 2026.
_SEARCHES = frozenset({"tool_search_call"})
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_NOT_AFTER_REASONING = frozenset({*_PAIRS, "compaction_trigger", "item_reference"})


def check(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    if not body.get("model") and not body.get("prompt"):
        yield finding("$.model", "model", "a model is required")
    if body.get("input") in ("", []):
        yield finding("$.input", "empty", "the input is empty")
    if body.get("previous_response_id") and body.get("conversation"):
        yield finding("$.conversation", "state-twice", "previous_response_id xor conversation")
    items = objects(body.get("input"))
    has_server_state = bool(body.get("previous_response_id") or body.get("conversation"))
    yield from _pairing(items, has_server_state or any(map(_is_reference, items)))
    yield from _reasoning(items)
    for index, item in enumerate(items):
        yield from _item(item, f"$.input[{index}]", is_last=index == len(items) - 1)
    yield from _tools(body)
    yield from _controls(body)
    yield from count_breakpoints(body)


def _kind(item: Body) -> str:
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def _is_reference(item: Body) -> bool:
    return _kind(item) == "item_reference"


def _key(item: Body) -> Any:
    return item.get("id") if _kind(item).startswith("local_shell") else item.get("call_id")


def _pairing(items: list[Body], has_server_state: bool) -> Iterator[str]:
    """Each client call has one later output of its kind, each output one earlier call."""
    calls: dict[tuple[str, Any], str] = {}
    hosted: set[tuple[str, Any]] = set()
    answered: set[tuple[str, Any]] = set()
    searches: set[Any] = set()
    for index, item in enumerate(items):
        kind, path = _kind(item), f"$.input[{index}]"
        if kind in _CALLS:
            if (kind, _key(item)) in calls:
                yield finding(path, "id-duplicate", f"call {_key(item)!r} occurs twice")
            calls[kind, _key(item)] = path
            if _is_hosted(item):
                hosted.add((kind, _key(item)))
        elif kind in _SEARCHES:
            searches.add(_key(item))
        elif kind in _PAIRS:
            key = (_PAIRS[kind], _key(item))
            if key in answered:
                yield finding(path, "result-duplicate", f"{_key(item)!r} is answered twice")
            elif key not in calls and _key(item) not in searches and not has_server_state:
                yield finding(path, "result-orphan", f"no earlier call {_key(item)!r}")
            answered.add(key)
    for key, path in calls.items():
        if key not in answered and key not in hosted:
            yield finding(path, "call-unanswered", f"{key[1]!r} has no output")


def _is_hosted(item: Body) -> bool:
    environment = item.get("environment")
    return isinstance(environment, dict) and environment.get("type") == "container_reference"


def _reasoning(items: list[Body]) -> Iterator[str]:
    """A reasoning item is directly followed by the assistant's message or call."""
    for index, item in enumerate(items):
        if _kind(item) != "reasoning":
            continue
        follower = items[index + 1] if index + 1 < len(items) else None
        if follower is None or _is_foreign_follower(follower):
            yield finding(f"$.input[{index}]", "reasoning-detached", "its follower is missing")


def _is_foreign_follower(item: Body) -> bool:
    if _kind(item) == "message":
        return item.get("role") != "assistant"
    return _kind(item) in _NOT_AFTER_REASONING


def _item(item: Body, path: str, *, is_last: bool) -> Iterator[str]:
    kind = _kind(item)
    yield from _item_ids(item, kind, path)
    if kind in ("function_call", "custom_tool_call"):
        yield from names_are_legal([(f"{path}.name", item.get("name"))], OPENAI_NAME)
    if kind == "compaction_trigger" and not is_last:
        yield finding(path, "trigger-last", "must be the final input item")
    if kind == "message":
        yield from _message(item, path)
    for index, part in enumerate(objects(item.get("output"))):
        yield from _part(part, f"{path}.output[{index}]")


def _item_ids(item: Body, kind: str, path: str) -> Iterator[str]:
    call_id, identifier = item.get("call_id"), item.get("id")
    has_call_id = kind in _CALLS or (kind in _PAIRS and kind != "local_shell_call_output")
    if has_call_id and not (isinstance(call_id, str) and 1 <= len(call_id) <= _ID_LIMIT):
        yield finding(f"{path}.call_id", "id-length", f"not within 1..{_ID_LIMIT} characters")
    prefix = _PREFIXES.get(kind)
    if prefix and isinstance(identifier, str) and not identifier.startswith(prefix):
        yield finding(f"{path}.id", "id-prefix", f"{identifier!r} does not begin with {prefix!r}")
    if isinstance(identifier, str) and len(identifier) > _ID_LIMIT:
        yield finding(f"{path}.id", "id-length", f"over {_ID_LIMIT} characters")


def _message(item: Body, path: str) -> Iterator[str]:
    content = item.get("content")
    if isinstance(content, list) and not content:
        yield finding(f"{path}.content", "empty", "the list of parts is empty")
    spoken = ("output_text", "refusal")
    for index, part in enumerate(objects(content)):
        where = f"{path}.content[{index}]"
        if (item.get("role") == "assistant") != (part.get("type") in spoken):
            yield finding(where, "part-role", f"{part.get('type')!r} in role {item.get('role')!r}")
        yield from _part(part, where)


def _part(part: Body, path: str) -> Iterator[str]:
    match part.get("type"):
        case "input_image":
            if part.get("image_url") is not None:
                yield from image_url_is_legal(f"{path}.image_url", part["image_url"])
            elif not part.get("file_id"):
                yield finding(path, "image-source", "image_url or file_id is required")
        case "input_file":
            if not any(part.get(key) for key in ("file_data", "file_id", "file_url")):
                yield finding(path, "file-source", "file_data, file_id or file_url is required")
            if part.get("file_data") is not None:
                yield from file_data_is_legal(f"{path}.file_data", part["file_data"])


def _tools(body: Body) -> Iterator[str]:
    tools = objects(body.get("tools"))
    named = [
        (f"$.tools[{index}].name", tool.get("name"))
        for index, tool in enumerate(tools)
        if tool.get("type") in ("function", "custom", "namespace")
    ]
    yield from names_are_legal(named, OPENAI_NAME)
    yield from names_are_unique(named)
    choice = body.get("tool_choice")
    if choice not in (None, "none", "auto") and not tools:
        yield finding("$.tool_choice", "tools-missing", "tool_choice needs tools")
    if not isinstance(choice, dict) or choice.get("type") not in ("function", "custom"):
        return
    if choice.get("name") not in {name for _, name in named}:
        yield finding("$.tool_choice", "tool-choice", f"{choice.get('name')!r} is not declared")


def _controls(body: Body) -> Iterator[str]:
    yield from in_range(body, "temperature", 0, 2)
    yield from in_range(body, "top_p", 0, 1)
    yield from in_range(body, "top_logprobs", 0, 20)
    yield from metadata_is_small(body.get("metadata"))
    if body.get("stream_options") is not None and not body.get("stream"):
        yield finding("$.stream_options", "stream-options", "only allowed with stream")
    text = body.get("text")
    text_format = text.get("format") if isinstance(text, dict) else None
    if isinstance(text_format, dict) and text_format.get("type") == "json_schema":
        yield from names_are_legal(
            [("$.text.format.name", text_format.get("name"))], OPENAI_NAME, "format-name"
        )
