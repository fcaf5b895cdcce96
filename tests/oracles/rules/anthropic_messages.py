"""Server rules of Anthropic Messages.

Sources: docstrings of anthropic 2.8.0, platform documentation and quoted server errors. The
server joins neighbouring turns of one role, so pairing is judged on joined turns: every tool_use
is answered in the next user turn, results first. With `thread` of type continue the call lies on
the server.
Recorded requests that the server took (2025, 2026) bound the rules: a conversation may begin with
the assistant, an answered call id may come again, adaptive thinking takes a forced tool, white
space may stand beside a call, and Claude 3 does not compare a picture with its media type.
Rules that rest on neither are listed in `server_rules.UNCONFIRMED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .findings import (
    IMAGE_TYPES,
    decode,
    finding,
    in_range,
    is_blank,
    media_matches,
    names_are_legal,
    names_are_unique,
    objects,
    walk,
)

Body = dict[str, Any]
Block = tuple[str, Body]
Turn = tuple[str, list[Block]]
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MAX_MARKS = 4


def check(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    messages = objects(body.get("messages"))
    if not messages:
        yield finding("$.messages", "empty", "at least one message is required")
    if not isinstance(body.get("max_tokens"), int):
        yield finding("$.max_tokens", "max-tokens", "max_tokens is required")
    yield from _roles(messages)
    yield from _not_empty(messages)
    turns = _joined(messages)
    yield from _pairing(turns, _continues_thread(body))
    yield from _server_results(turns)
    yield from _call_shapes(turns)
    yield from _blocks(body)
    yield from _cache_marks(body)
    yield from _tools(body)
    yield from _controls(body)


def _roles(messages: list[Body]) -> Iterator[str]:
    """A system message stands behind a user turn, and before the assistant's, another one, or the end."""
    roles = [message.get("role") for message in messages]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        path = f"$.messages[{index}]"
        if index == 0 or roles[index - 1] not in ("user", "system"):
            yield finding(path, "system-place", "a system message goes right after a user turn")
        if index + 1 < len(roles) and roles[index + 1] not in ("assistant", "system"):
            yield finding(path, "system-place", "a system message has no user turn behind it")


def _not_empty(messages: list[Body]) -> Iterator[str]:
    for index, message in enumerate(messages):
        content, path = message.get("content"), f"$.messages[{index}].content"
        is_final_assistant = index == len(messages) - 1 and message.get("role") == "assistant"
        if not is_final_assistant and (content == [] or is_blank(content)):
            yield finding(path, "empty", "the content is empty or blank")
        if is_final_assistant:
            yield from _prefill(content, path)


def _prefill(content: Any, path: str) -> Iterator[str]:
    text = content
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        text = content[-1].get("text")
    if isinstance(text, str) and text != text.rstrip():
        yield finding(path, "prefill-space", "the final assistant text ends in white space")


def _joined(messages: list[Body]) -> list[Turn]:
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        blocks = _message_blocks(message, f"$.messages[{index}].content")
        if role == "system":
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    return turns


def _message_blocks(message: Body, path: str) -> list[Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [(path, {"type": "text", "text": content})]
    return [(f"{path}[{i}]", block) for i, block in enumerate(objects(content))]


def _of_type(blocks: list[Block], kind: str) -> list[Block]:
    return [(path, block) for path, block in blocks if block.get("type") == kind]


def _continues_thread(body: Body) -> bool:
    thread = body.get("thread")
    return isinstance(thread, dict) and thread.get("type") == "continue"


def _pairing(turns: list[Turn], has_server_state: bool) -> Iterator[str]:
    for index, (role, blocks) in enumerate(turns):
        calls = _of_type(blocks, "tool_use") if role == "assistant" else []
        following = turns[index + 1][1] if index + 1 < len(turns) else []
        results = {block.get("tool_use_id") for _, block in _of_type(following, "tool_result")}
        for path, call in calls:
            if call.get("id") not in results:
                yield finding(path, "call-unanswered", f"{call.get('id')!r}: no result follows")
        before = turns[index - 1][1] if index and role == "user" else []
        expected = {call.get("id") for _, call in _of_type(before, "tool_use")}
        if has_server_state and not index:
            expected = {block.get("tool_use_id") for _, block in blocks}
        yield from _results(blocks, expected)


def _results(blocks: list[Block], expected: set[Any]) -> Iterator[str]:
    answered: set[Any] = set()
    has_other_content = False
    for path, block in blocks:
        if block.get("type") != "tool_result":
            has_other_content = True
            continue
        identifier = block.get("tool_use_id")
        if identifier not in expected:
            yield finding(path, "result-orphan", f"no call {identifier!r} in the turn before")
        if identifier in answered:
            yield finding(path, "result-duplicate", f"{identifier!r} is answered twice")
        if has_other_content:
            yield finding(path, "results-first", "results come before other content")
        answered.add(identifier)


def _server_results(turns: list[Turn]) -> Iterator[str]:
    """A hosted tool's result needs its call earlier in the same assistant turn."""
    for role, blocks in turns:
        called: set[Any] = set()
        for path, block in blocks:
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                called.add(block.get("id"))
            is_hosted_result = kind.endswith("_tool_result") and kind != "tool_result"
            if is_hosted_result and (role, block.get("tool_use_id")) not in {
                ("assistant", identifier) for identifier in called
            }:
                yield finding(path, "server-result-orphan", "no server_tool_use before it")


def _call_shapes(turns: list[Turn]) -> Iterator[str]:
    for _, blocks in turns:
        seen: set[Any] = set()
        for path, block in _of_type(blocks, "tool_use"):
            identifier = block.get("id")
            if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
                yield finding(f"{path}.id", "id-charset", f"{identifier!r} is illegal")
            if identifier in seen:
                yield finding(f"{path}.id", "id-duplicate", f"{identifier!r} occurs twice")
            seen.add(identifier)
            yield from names_are_legal([(f"{path}.name", block.get("name"))], _NAME)
            if not isinstance(block.get("input"), dict):
                yield finding(f"{path}.input", "input-object", "the input must be an object")
        for path, block in _of_type(blocks, "tool_result"):
            identifier = block.get("tool_use_id")
            if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
                yield finding(f"{path}.tool_use_id", "id-charset", f"{identifier!r} is illegal")


def _blocks(body: Body) -> Iterator[str]:
    """Blocks at any depth of system and messages, but not inside of tool inputs."""
    images = 0
    spaces = set(_spaces_beside_calls(body))
    compares = not str(body.get("model")).startswith("claude-3")
    for path, block in _content_objects(body):
        match block.get("type"):
            case "text":
                if "text" in block and is_blank(block["text"]) and path not in spaces:
                    yield finding(path, "blank-text", "text needs a visible character")
            case "image":
                images += 1
                found = _source(block.get("source"), f"{path}.source", IMAGE_TYPES)
                yield from (one for one in found if compares or ": media-mismatch: " not in one)
            case "document":
                yield from _source(
                    block.get("source"), f"{path}.source", frozenset({"application/pdf"})
                )
    if images > 100:
        yield finding("$.messages", "image-limit", f"{images} images, 100 are allowed")


def _spaces_beside_calls(body: Body) -> Iterator[str]:
    """The places of white space that the server takes: beside a call of the assistant."""
    for index, message in enumerate(objects(body.get("messages"))):
        blocks = _message_blocks(message, f"$.messages[{index}].content")
        if message.get("role") == "assistant" and _of_type(blocks, "tool_use"):
            yield from (path for path, block in _of_type(blocks, "text") if block.get("text"))


def _content_objects(body: Body) -> Iterator[tuple[str, Body]]:
    for key in ("system", "messages"):
        for path, block in walk(body.get(key), f"$.{key}"):
            if ".input" not in path:
                yield path, block


def _source(source: Any, path: str, allowed: frozenset[str]) -> Iterator[str]:
    if not isinstance(source, dict) or source.get("type") != "base64":
        return
    declared = source.get("media_type")
    if declared not in allowed:
        yield finding(f"{path}.media_type", "media-type", f"{declared!r} is not allowed here")
    yield from media_matches(f"{path}.data", declared, decode(source.get("data")))


def _cache_marks(body: Body) -> Iterator[str]:
    marked = list(_marked(body))
    if len(marked) > _MAX_MARKS:
        path = marked[_MAX_MARKS][0]
        yield finding(path, "cache-marks", f"{len(marked)} cache marks, {_MAX_MARKS} are allowed")
    has_short = False
    for path, block in marked:
        ttl = block["cache_control"].get("ttl") or "5m"
        if ttl == "1h" and has_short:
            yield finding(path, "cache-order", "a 1h mark after a 5m mark")
        has_short = has_short or ttl == "5m"
        if block.get("type") == "text" and not block.get("text"):
            yield finding(path, "cache-empty", "a cache mark on empty text")


def _marked(body: Body) -> Iterator[tuple[str, Body]]:
    """Marked objects in the order of the prompt: tools, system, messages."""
    for key in ("tools", "system", "messages"):
        for path, block in walk(body.get(key), f"$.{key}"):
            is_content = ".input" not in path
            if is_content and isinstance(block.get("cache_control"), dict):
                yield path, block
    if isinstance(body.get("cache_control"), dict):
        yield "$", body


def _tools(body: Body) -> Iterator[str]:
    tools = [
        (f"$.tools[{index}].name", tool["name"])
        for index, tool in enumerate(objects(body.get("tools")))
        if "name" in tool
    ]
    yield from names_are_legal(tools, _NAME)
    yield from names_are_unique(tools)
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    if not body.get("tools") and choice.get("type") != "none" and not body.get("mcp_servers"):
        yield finding("$.tool_choice", "tools-missing", "tool_choice needs tools")
    if choice.get("type") == "tool" and choice.get("name") not in {name for _, name in tools}:
        yield finding("$.tool_choice", "tool-choice", f"{choice.get('name')!r} is not declared")


def _controls(body: Body) -> Iterator[str]:
    yield from in_range(body, "temperature", 0, 1)
    yield from in_range(body, "top_p", 0, 1)
    for index, text in enumerate(body.get("stop_sequences") or ()):
        if is_blank(text):
            yield finding(f"$.stop_sequences[{index}]", "stop-blank", "only white space")
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int):
        limit = body.get("max_tokens")
        if budget < 1024 or (isinstance(limit, int) and budget >= limit):
            yield finding("$.thinking.budget_tokens", "budget", "needs 1024 <= budget < max_tokens")
    if isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        yield from _while_thinking(body)
    config = body.get("output_config")
    form = config.get("format") if isinstance(config, dict) else None
    if isinstance(form, dict):
        yield from _closed(form.get("schema"), "$.output_config.format.schema")


def _while_thinking(body: Body) -> Iterator[str]:
    if body.get("temperature", 1) != 1 or "top_k" in body or body.get("top_p", 1) < 0.95:
        yield finding("$.thinking", "thinking-sampling", "temperature, top_k or a small top_p")
    choice = body.get("tool_choice")
    is_forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
    if is_forced and body["thinking"]["type"] == "enabled":
        yield finding("$.tool_choice", "thinking-forced", "enabled thinking takes no forced tool")


def _closed(schema: Any, path: str) -> Iterator[str]:
    """Objects that an answer is held to must be closed."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield finding(path, "format-open", "additionalProperties must be false")
    for key in ("properties", "$defs"):
        for name, inner in (schema.get(key) or {}).items():
            yield from _closed(inner, f"{path}.{key}.{name}")
    for index, inner in enumerate(schema.get("anyOf") or ()):
        yield from _closed(inner, f"{path}.anyOf[{index}]")
    yield from _closed(schema.get("items"), f"{path}.items")
