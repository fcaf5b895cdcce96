"""The built-in upstream ``echo``: no model, no network, which its answers state.

It repeats the last user text. If the request requires a call (``tool_choice``), or the last user text says ``call
<tool>``, it calls that tool once with arguments generated from the tool's schema; given a result, it repeats the
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cannery.gateway.identifiers import new_identifier
from cannery.messages import (
    AnyCanister,
    Conversation,
    DataContentClass,
    Delta,
    Event,
    FinishReason,
    PartsContentClass,
    Request,
    Response,
    ResultCanisterClass,
    Role,
    TextualContentClass,
    Tool,
    ToolChoice,
    Usage,
    absent,
    assistant,
    invocation,
    unfold,
)
from cannery.messages.json_text import write_json

_CALL = re.compile(r"\bcall\s+[`'\"]?([A-Za-z0-9_.-]+)", re.IGNORECASE)
_WORDS = re.compile(r"\S+\s*|\s+")
_SAMPLES: dict[str, Any] = {
    "string": "echo",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def answer(request: Request) -> Response:
    """The answer of echo to a request."""
    heard = _last_words(request)
    tool = _wanted_tool(request, heard)
    said: list[AnyCanister]
    if tool is None:
        said, finish = [assistant(f"echo: {heard}" if heard else "echo")], FinishReason.Stop
    else:
        call_id = f"call_{new_identifier()}"
        words = heard if tool.is_freeform else _arguments(tool)
        said = [invocation(call_id, tool.name, words, is_freeform=tool.is_freeform)]
        finish = FinishReason.Tool
    usage = Usage(count_tokens(request), max(1, sum(len(str(one)) for one in said) // 40))
    model = request.model if isinstance(request.model, str) else "echo"
    return Response(Conversation(said), finish, usage, model, f"echo-{new_identifier()}")


def events(response: Response) -> Iterator[Event]:
    """An answer word by word, as a model would stream it."""
    for event in unfold(response):
        if isinstance(event, Delta) and event.channel == "text":
            for words in _WORDS.findall(event.text):
                yield Delta(event.index, words)
        else:
            yield event


def count_tokens(request: Request) -> int:
    """A rough count: four characters per token, and a few tokens for each message."""
    characters = sum(len(_text_of(canister.held)) for canister in request.conversation)
    schemas = sum(len(tool.schema) for tool in request.tools if isinstance(tool.schema, str))
    return max(1, (characters + schemas) // 4 + 3 * len(request.conversation))


def _text_of(held: Any) -> str:
    """A content as text; content without text is named by its kind."""
    match held:
        case str():
            return held
        case TextualContentClass():
            return held.text
        case DataContentClass():
            return held.json
        case PartsContentClass():
            return "\n".join(map(_text_of, held.parts))
        case _:
            return "" if held is absent else f"[{held.kind}]"


def _last_words(request: Request) -> str:
    """The text of the last user or result turn."""
    words: list[str] = []
    speaker: Role | None = None
    for canister in reversed(request.conversation):
        if canister.role not in (Role.User, Role.Result):
            if speaker is not None:
                break
            continue
        if speaker is not None and canister.role is not speaker:
            break
        speaker = canister.role
        text = _text_of(canister.held)
        if text:
            words.append(text)
        if not canister.joined and speaker is Role.User:
            break
    return "\n".join(reversed(words))


def _wanted_tool(request: Request, heard: str) -> Tool | None:
    """The tool that must be called, if any."""
    tools = {tool.name: tool for tool in request.tools if tool.hosted is absent}
    choice = request.tool_choice
    if not tools or (isinstance(choice, ToolChoice) and choice.mode == "none"):
        return None
    if request.conversation and isinstance(request.conversation[-1], ResultCanisterClass):
        return None
    if isinstance(choice, ToolChoice):
        named = [tools[name] for name in choice.names if name in tools]
        if named and (choice.mode == "named" or choice.must_call):
            return named[0]
        if choice.mode == "required":
            return next(iter(tools.values()))
    asked = _CALL.search(heard)
    return tools.get(asked[1].rstrip(".")) if asked else None


def _arguments(tool: Tool) -> str:
    schema = tool.parameters
    return write_json({} if schema is absent else _sample(schema, 0), "arguments")


def _sample(schema: Any, depth: int) -> Any:
    """A small value that a JSON schema accepts, in the usual cases."""
    if not hasattr(schema, "get") or depth > 8:
        return {}
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _sample(schema[key][0], depth + 1)
    kind = schema.get("type", "object")
    kind = (kind if isinstance(kind, str) else kind[0]).lower()
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {
            name: _sample(properties[name], depth + 1) for name in required if name in properties
        }
    if kind == "array" and schema.get("minItems"):
        return [_sample(schema.get("items") or {}, depth + 1)]
    return _SAMPLES.get(kind, "echo")
