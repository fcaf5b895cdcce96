"""Which dialect a body speaks, told from its shape.

Signs are looked at in order, the surest first; each names its dialect, what it is a sign of, and the reason that a
person is told. A body that only says ``messages`` in the way that most of the world does is ``openai_chat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from cannery.dialects import dialect_names
from cannery.errors import DialectError, InputError
from cannery.wire.bodies import read_value

_LINE = 1 << 20
_MODELS = {
    "claude": "anthropic_messages",
    "codestral": "mistral_chat",
    "command": "cohere_chat",
    "gemini": "gemini_generate",
    "magistral": "mistral_chat",
    "ministral": "mistral_chat",
    "mistral": "mistral_chat",
    "open-mi": "mistral_chat",
    "pixtral": "mistral_chat",
}


# Fields in which data sets and logs keep what was answered; no request has them.
ANSWERS = frozenset(
    {
        "answer",
        "answers",
        "chosen",
        "chosen_messages",
        "completion",
        "completions",
        "conversation_id",
        "label",
        "output",
        "outputs",
        "rejected",
        "rejected_messages",
        "response",
        "response_json",
        "responses",
        "sessionId",
        "session_id",
    }
)


class Detection(NamedTuple):
    """What a body is: its dialect, whether it is a request, response or stream, and how that was told."""

    dialect: str
    kind: str
    reason: str


class Sign(NamedTuple):
    """One thing to look for in a body."""

    dialect: str
    kind: str
    reason: str
    holds: Callable[[Mapping[str, Any]], bool]


def detect_dialect(body: object) -> tuple[str, str]:
    """The dialect of a body, and the reason; InputError if it is none that is known."""
    found = detect(body)
    return found.dialect, found.reason


def detect(body: object) -> Detection:
    """The dialect and the kind of a body, and the reason; InputError if it is none that is known."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = bytes(body)
        return _detect_stream(body) or _detect_value(_decode(body))
    if isinstance(body, str):
        return detect(body.encode("utf-8", "surrogatepass"))
    return _detect_value(body)


def _decode(body: bytes) -> Any:
    try:
        return read_value("unknown", body)
    except DialectError as error:
        raise InputError(error.problem) from None


def _detect_value(value: Any) -> Detection:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        found = _first(value[0], ("response",))
        if found is not None and found.dialect == "gemini_generate":
            return found._replace(kind="stream", reason="it is an array of candidates")
    if not isinstance(value, Mapping):
        raise InputError("no dialect: a body is a JSON object")
    found = _first(value, ("request", "response"))
    if found is None:
        keys = ", ".join(map(str, list(value)[:6])) or "nothing"
        raise InputError(f"no known dialect has a body of this shape (it has {keys})")
    return found


def _first(value: Mapping[str, Any], kinds: tuple[str, ...]) -> Detection | None:
    known = dialect_names()
    for sign in _SIGNS:
        if sign.kind in kinds and sign.dialect in known and sign.holds(value):
            return Detection(sign.dialect, sign.kind, sign.reason)
    return None


# --- streams -----------------------------------------------------------------------------------

_STREAM_SIGNS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], str], ...] = (
    ("openai_chat", lambda v: "choices" in v, "its events are chat completion chunks"),
    (
        "openai_responses",
        lambda v: str(v.get("type", "")).startswith("response."),
        "its events are named response.…",
    ),
    (
        "gemini_generate",
        lambda v: "candidates" in v or "promptFeedback" in v,
        "its events have candidates",
    ),
    (
        "cohere_chat",
        lambda v: "-" in str(v.get("type", "")),
        "its events are named with a hyphen",
    ),
    (
        "anthropic_messages",
        lambda v: v.get("type") in ("message_start", "ping", "content_block_start", "error"),
        "its events start with message_start",
    ),
)


def _detect_stream(body: bytes) -> Detection | None:
    """The dialect of server-sent events, or of one JSON object a line."""
    start = body[:_LINE].lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return _detect_events(start)
    first, _, rest = start.partition(b"\n")
    if b'"done"' in first and rest.strip() and "ollama_chat" in dialect_names():
        return Detection("ollama_chat", "stream", "each line says whether it is done")
    return None


def _detect_events(start: bytes) -> Detection:
    for data in _events(start):
        for dialect, holds, reason in _STREAM_SIGNS:
            if dialect in dialect_names() and holds(data):
                return Detection(dialect, "stream", reason)
    raise InputError("server-sent events of no known dialect")


def _events(start: bytes) -> Iterator[Mapping[str, Any]]:
    for line in start.splitlines():
        if line.startswith(b"data:"):
            try:
                data = msgspec.json.decode(line[5:])
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue
            if isinstance(data, Mapping):
                yield data


# --- signs -------------------------------------------------------------------------------------


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: any(name in value for name in names)


def _holds_turns(name: str) -> Callable[[Mapping[str, Any]], bool]:
    """A field with what is said, not a text of the same name."""
    return lambda value: isinstance(value.get(name), (list, Mapping))


def _asks(name: str) -> Callable[[Mapping[str, Any]], bool]:
    """A field that asks, in a body that has no answer beside it, as a row of a data set has."""
    return lambda value: name in value and not ANSWERS & value.keys()


def _listed(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: isinstance(value.get(name), list)


def _messages(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = value.get("messages")
    return [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []


def _blocks(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in _messages(value):
        content = message.get("content")
        if isinstance(content, list):
            yield from (block for block in content if isinstance(block, Mapping))


def _block_ends(*tags: str) -> Callable[[Mapping[str, Any]], bool]:
    """A block of one of these types, or of one that ends so (``web_search_tool_result``)."""
    return lambda value: any(str(block.get("type")).endswith(tags) for block in _blocks(value))


def _role_is(*roles: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: any(message.get("role") in roles for message in _messages(value))


def _message_has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: any(name in message for message in _messages(value) for name in names)


def _tool_has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    def holds(value: Mapping[str, Any]) -> bool:
        tools = value.get("tools")
        listed = tools if isinstance(tools, list) else []
        return any(isinstance(tool, Mapping) and name in tool for tool in listed for name in names)

    return holds


def _model_is(dialect: str) -> Callable[[Mapping[str, Any]], bool]:
    begins = tuple(name for name, spoken in _MODELS.items() if spoken == dialect)

    def holds(value: Mapping[str, Any]) -> bool:
        model = str(value.get("model", "")).lower().rpartition("/")[2]
        return "messages" in value and model.startswith(begins)

    return holds


def _both(
    one: Callable[[Mapping[str, Any]], bool], other: Callable[[Mapping[str, Any]], bool]
) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: one(value) and other(value)


def _object_is(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda value: value.get("object") == name


def _untagged(value: Mapping[str, Any]) -> bool:
    blocks = list(_blocks(value))
    return bool(blocks) and all("type" not in block for block in blocks)


def _object_arguments(value: Mapping[str, Any]) -> bool:
    for message in _messages(value):
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping) and isinstance(function.get("arguments"), Mapping):
                return True
    return False


_REQUEST, _RESPONSE = "request", "response"
_MANY = _listed("messages")
_SIGNS = (
    # Fields that one dialect alone has.
    Sign("gemini_generate", _REQUEST, "it has contents", _holds_turns("contents")),
    Sign("gemini_generate", _RESPONSE, "it has candidates", _has("candidates", "promptFeedback")),
    Sign("gemini_generate", _RESPONSE, "it has usageMetadata", _has("usageMetadata")),
    Sign("sharegpt", _REQUEST, "it has conversations", _listed("conversations")),
    Sign(
        "alpaca",
        _REQUEST,
        "it has an instruction",
        lambda value: "instruction" in value and "response" not in value,
    ),
    Sign("openai_responses", _RESPONSE, "its object is response", _object_is("response")),
    Sign("openai_chat", _RESPONSE, "it has choices", _listed("choices")),
    Sign("bedrock_converse", _RESPONSE, "it has a stopReason", _has("stopReason")),
    Sign("ollama_chat", _RESPONSE, "it says done", _both(_has("message"), _has("done"))),
    Sign(
        "cohere_chat",
        _RESPONSE,
        "it has a message and a finish_reason",
        _both(_has("message"), _has("finish_reason")),
    ),
    Sign(
        "anthropic_messages",
        _RESPONSE,
        "its type is message",
        lambda value: value.get("type") == "message" and "content" in value,
    ),
    # Requests with messages: what only one says.
    Sign(
        "bedrock_converse",
        _REQUEST,
        "it has an inferenceConfig or toolConfig",
        _has("inferenceConfig", "toolConfig", "modelId"),
    ),
    Sign("bedrock_converse", _REQUEST, "its content blocks have no type", _untagged),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it has system beside messages",
        _both(_has("system"), _MANY),
    ),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "its tools have an input_schema",
        _both(_tool_has("input_schema"), _MANY),
    ),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it has blocks of tool_use or tool_result",
        _block_ends(
            *("tool_use", "tool_result", "thinking", "container_upload", "compaction"),
            *("search_result", "tool_reference", "tool_addition", "tool_removal"),
        ),
    ),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it has images or documents with a source",
        lambda value: any("source" in block for block in _blocks(value)),
    ),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it has stop_sequences or an anthropic_version",
        _both(_has("stop_sequences", "anthropic_version", "anthropic_beta"), _MANY),
    ),
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it has settings that only this dialect has",
        _both(
            _has(
                "mcp_servers", "container", "context_management", "output_config", "inference_geo"
            ),
            _MANY,
        ),
    ),
    Sign(
        "ollama_chat",
        _REQUEST,
        "it has options or keep_alive",
        _both(_has("options", "keep_alive"), _MANY),
    ),
    Sign("ollama_chat", _REQUEST, "its calls have arguments as objects", _object_arguments),
    Sign("ollama_chat", _REQUEST, "its messages have images", _message_has("images")),
    Sign("openai_finetuning", _REQUEST, "its messages have a weight", _message_has("weight")),
    Sign(
        "mistral_chat",
        _REQUEST,
        "it has safe_prompt or random_seed",
        _both(_has("safe_prompt", "random_seed"), _MANY),
    ),
    Sign(
        "cohere_chat",
        _REQUEST,
        "it has citation_options or safety_mode",
        _both(_has("citation_options", "safety_mode", "tool_plan"), _MANY),
    ),
    Sign("openai_chat", _REQUEST, "it has developer messages", _role_is("developer")),
    Sign(
        "openai_chat",
        _REQUEST,
        "it has settings that only this dialect has",
        _both(_has("max_completion_tokens", "logit_bias", "stream_options"), _MANY),
    ),
    # Requests whose model gives them away.
    Sign(
        "anthropic_messages",
        _REQUEST,
        "it asks for a Claude model",
        _model_is("anthropic_messages"),
    ),
    Sign("mistral_chat", _REQUEST, "it asks for a Mistral model", _model_is("mistral_chat")),
    Sign("cohere_chat", _REQUEST, "it asks for a Command model", _model_is("cohere_chat")),
    # The common shape.
    Sign("openai_chat", _REQUEST, "it has messages", _MANY),
    Sign("openai_responses", _REQUEST, "it has input and no messages", _asks("input")),
    Sign("openai_responses", _REQUEST, "it has instructions", _asks("instructions")),
    Sign(
        "openai_responses",
        _REQUEST,
        "it names a stored prompt",
        lambda value: isinstance(value.get("prompt"), Mapping),
    ),
    Sign(
        "openai_responses",
        _REQUEST,
        "it goes on with an answer or a conversation",
        _has("previous_response_id", "conversation", "max_output_tokens"),
    ),
)
