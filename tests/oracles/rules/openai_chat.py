"""Server rules of OpenAI Chat Completions.

Sources: API reference docstrings of openai 3.49.0 and quoted server errors. Beyond the shape:
every call is answered right after its turn, exactly once; ids stay within 40 characters (the limit
enforced through late 2025); names match `[A-Za-z0-9_-]{1,64}`.
Rules that rest on neither are listed in `server_rules.UNCONFIRMED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .findings import (
    OPENAI_NAME,
    count_breakpoints,
    decode,
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
_ID_LIMIT = 40


def check(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    messages = objects(body.get("messages"))
    if not messages:
        yield finding("$.messages", "empty", "at least one message is required")
    if not body.get("model"):
        yield finding("$.model", "model", "a model is required")
    yield from _pairing(messages)
    yield from _ids(messages)
    for index, message in enumerate(messages):
        yield from _content(message, f"$.messages[{index}]")
    yield from _tools(body)
    yield from _controls(body)
    yield from count_breakpoints(body)


def _pairing(messages: list[Body]) -> Iterator[str]:
    """Results follow their calls at once, each call has one, no result is left over."""
    waiting: dict[Any, str] = {}
    answered: set[Any] = set()
    for index, message in enumerate(messages):
        path = f"$.messages[{index}]"
        if message.get("role") == "tool":
            identifier = message.get("tool_call_id")
            if identifier in waiting:
                answered.add(identifier)
                waiting.pop(identifier)
            elif identifier in answered:
                yield finding(path, "result-duplicate", f"{identifier!r} is answered twice")
            else:
                yield finding(path, "result-orphan", f"no call {identifier!r} just before")
            continue
        yield from _unanswered(waiting)
        calls = objects(message.get("tool_calls")) if message.get("role") == "assistant" else []
        waiting = {call.get("id"): f"{path}.tool_calls[{i}]" for i, call in enumerate(calls)}
        answered = set()
    yield from _unanswered(waiting)


def _unanswered(waiting: dict[Any, str]) -> Iterator[str]:
    for identifier, path in waiting.items():
        yield finding(path, "call-unanswered", f"{identifier!r} has no tool message right after")


def _ids(messages: list[Body]) -> Iterator[str]:
    for index, message in enumerate(messages):
        seen: set[Any] = set()
        for position, call in enumerate(objects(message.get("tool_calls"))):
            path = f"$.messages[{index}].tool_calls[{position}].id"
            identifier = call.get("id")
            if not isinstance(identifier, str) or not 1 <= len(identifier) <= _ID_LIMIT:
                yield finding(path, "id-length", f"not within 1..{_ID_LIMIT} characters")
            if identifier in seen:
                yield finding(path, "id-duplicate", f"{identifier!r} twice in one message")
            seen.add(identifier)


def _content(message: Body, path: str) -> Iterator[str]:
    content = message.get("content")
    if content == [] and isinstance(content, list):
        yield finding(f"{path}.content", "empty", "the list of parts is empty")
    if message.get("tool_calls") == []:
        yield finding(f"{path}.tool_calls", "empty", "the list of calls is empty")
    if message.get("role") == "assistant":
        yield from _assistant_content(message, path)
    for index, part in enumerate(objects(content)):
        yield from _part(part, f"{path}.content[{index}]")


def _assistant_content(message: Body, path: str) -> Iterator[str]:
    stand_ins = ("tool_calls", "function_call", "audio", "refusal")
    if message.get("content") is None and not any(message.get(key) for key in stand_ins):
        yield finding(f"{path}.content", "content-missing", "required without calls")
    kinds = [part.get("type") for part in objects(message.get("content"))]
    if "refusal" in kinds and len(kinds) > 1:
        yield finding(f"{path}.content", "refusal-alone", "a refusal part must be the only part")


def _part(part: Body, path: str) -> Iterator[str]:
    match part.get("type"):
        case "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            yield from image_url_is_legal(f"{path}.image_url.url", url)
        case "input_audio":
            audio = part.get("input_audio")
            if not isinstance(audio, dict) or decode(audio.get("data")) is None:
                yield finding(f"{path}.input_audio.data", "base64", "raw base64 is required")
        case "file":
            yield from _file(part.get("file"), f"{path}.file")


def _file(file: Any, path: str) -> Iterator[str]:
    file = file if isinstance(file, dict) else {}
    if not file.get("file_data") and not file.get("file_id"):
        yield finding(path, "file-source", "file_data or file_id is required")
    if file.get("file_data") is not None:
        yield from file_data_is_legal(f"{path}.file_data", file["file_data"])


def _tools(body: Body) -> Iterator[str]:
    tools = list(_tool_names(body))
    yield from names_are_legal([*tools, *_called_names(body)], OPENAI_NAME)
    yield from names_are_unique(tools)
    declared = {name for _, name in tools}
    if body.get("tools") == []:
        yield finding("$.tools", "empty", "the list of tools is empty")
    for key in ("tool_choice", "parallel_tool_calls"):
        if body.get(key) is not None and not body.get("tools") and body.get(key) != "none":
            yield finding(f"$.{key}", "tools-missing", f"{key} is only allowed with tools")
    for path, name in _chosen_names(body):
        if name not in declared:
            yield finding(path, "tool-choice", f"{name!r} is no declared tool")


def _tool_names(body: Body) -> Iterator[tuple[str, Any]]:
    for index, tool in enumerate(objects(body.get("tools"))):
        kind = tool.get("type")
        if kind in ("function", "custom") and isinstance(tool.get(kind), dict):
            yield f"$.tools[{index}].{kind}.name", tool[kind].get("name")
    for index, function in enumerate(objects(body.get("functions"))):
        yield f"$.functions[{index}].name", function.get("name")


def _called_names(body: Body) -> Iterator[tuple[str, Any]]:
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}]"
        for position, call in enumerate(objects(message.get("tool_calls"))):
            kind = call.get("type")
            if kind in ("function", "custom") and isinstance(call.get(kind), dict):
                yield f"{path}.tool_calls[{position}].{kind}.name", call[kind].get("name")
        if isinstance(message.get("function_call"), dict):
            yield f"{path}.function_call.name", message["function_call"].get("name")
        if message.get("role") == "function":
            yield f"{path}.name", message.get("name")


def _chosen_names(body: Body) -> Iterator[tuple[str, Any]]:
    for key in ("tool_choice", "function_call"):
        choice = body.get(key)
        if not isinstance(choice, dict):
            continue
        if choice.get("type") == "allowed_tools":
            allowed = choice.get("allowed_tools") or {}
            for index, tool in enumerate(objects(allowed.get("tools"))):
                named = tool.get("function") or tool.get("custom") or {}
                yield f"$.{key}.allowed_tools.tools[{index}]", named.get("name")
            continue
        named = choice.get("function") or choice.get("custom") or choice
        yield f"$.{key}", named.get("name")


def _controls(body: Body) -> Iterator[str]:
    yield from in_range(body, "temperature", 0, 2)
    yield from in_range(body, "top_p", 0, 1)
    yield from in_range(body, "presence_penalty", -2, 2)
    yield from in_range(body, "frequency_penalty", -2, 2)
    yield from in_range(body, "top_logprobs", 0, 20)
    yield from metadata_is_small(body.get("metadata"))
    if isinstance(body.get("stop"), list) and len(body["stop"]) > 4:
        yield finding("$.stop", "stop-limit", "at most 4 sequences")
    if body.get("stream_options") is not None and not body.get("stream"):
        yield finding("$.stream_options", "stream-options", "only allowed with stream")
    response_format = body.get("response_format")
    if isinstance(response_format, dict) and response_format.get("type") == "json_schema":
        name = (response_format.get("json_schema") or {}).get("name")
        yield from names_are_legal(
            [("$.response_format.json_schema.name", name)], OPENAI_NAME, "format-name"
        )
