"""Lists the leaves of request bodies, one walker per dialect, by the shapes of the wire alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .judges import JUDGES
from .leaf import Leaf, call, filed, inline, located
from .rules.findings import objects
from .rules.gemini_generate import get, spelled

Body = dict[str, Any]
Leaves = Iterator[Leaf]
_CHAT_REASONING = ("reasoning_content", "reasoning")


def chat(body: Body) -> Leaves:
    """OpenAI Chat."""
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}]"
        role = message.get("role")
        for key in _CHAT_REASONING:
            yield from _said("reasoning", message.get(key), f"{path}.{key}")
        yield from _reasoning_details(message.get("reasoning_details"), path)
        kind = {"system": "system", "developer": "system", "tool": "result", "function": "result"}
        yield from _chat_content(message, kind.get(str(role), "text"), path)
        yield from _said("refusal", message.get("refusal"), f"{path}.refusal")
        yield from _chat_calls(message, path)
        if isinstance(message.get("audio"), dict):
            yield filed(message["audio"].get("id"), f"{path}.audio")


def _reasoning_details(details: Any, path: str) -> Leaves:
    """The vendor list of reasoning parts: text or summary, with signature or sealed data."""
    for index, detail in enumerate(objects(details)):
        where = f"{path}.reasoning_details[{index}]"
        for key in ("text", "summary"):
            yield from _said("reasoning", detail.get(key), f"{where}.{key}")
        for key in ("signature", "data"):
            yield from _said("signature", detail.get(key), f"{where}.{key}")


def _chat_content(message: Body, kind: str, path: str) -> Leaves:
    content = message.get("content")
    yield from _said(kind, content, f"{path}.content")
    for index, part in enumerate(objects(content)):
        yield from _chat_part(part, kind, f"{path}.content[{index}]")


def _chat_part(part: Body, kind: str, path: str) -> Leaves:
    match part.get("type"):
        case "text":
            yield from _said(kind, part.get("text"), f"{path}.text")
        case "refusal":
            yield from _said("refusal", part.get("refusal"), f"{path}.refusal")
        case "image_url":
            image = part.get("image_url")
            yield located(image.get("url") if isinstance(image, dict) else image, path)
        case "input_audio":
            yield inline(_holder(part, "input_audio").get("data"), path)
        case "file":
            yield from _file(_holder(part, "file"), path)
        case _:
            yield Leaf("opaque", part, path)


def _file(file: Body, path: str) -> Leaves:
    if file.get("file_data") is not None:
        yield inline(file["file_data"], path)
    if file.get("file_id") is not None:
        yield filed(file["file_id"], path)
    if file.get("file_url") is not None:
        yield located(file["file_url"], path)


def _chat_calls(message: Body, path: str) -> Leaves:
    for index, item in enumerate(objects(message.get("tool_calls"))):
        where = f"{path}.tool_calls[{index}]"
        kind = item.get("type", "function")
        if kind == "custom" and isinstance(item.get("custom"), dict):
            yield call(item["custom"].get("name"), item["custom"].get("input"), where)
        elif isinstance(item.get("function"), dict):
            yield call(item["function"].get("name"), item["function"].get("arguments"), where)
        else:
            yield Leaf("opaque", item, where)
    legacy = message.get("function_call")
    # Some endpoints put an empty one beside every text.
    if isinstance(legacy, dict) and (legacy.get("name") or legacy.get("arguments")):
        yield call(legacy.get("name"), legacy.get("arguments"), f"{path}.function_call")


def responses(body: Body) -> Leaves:
    """OpenAI Responses."""
    yield from _said("system", body.get("instructions"), "$.instructions")
    yield from _said("text", body.get("input"), "$.input")
    for index, item in enumerate(objects(body.get("input"))):
        path = f"$.input[{index}]"
        kind = item.get("type")
        if kind is None:
            kind = "message" if "role" in item else "item_reference"
        yield from _ITEMS.get(str(kind), _other_item)(item, path)


def _message_item(item: Body, path: str) -> Leaves:
    kind = "system" if item.get("role") in ("system", "developer") else "text"
    yield from _said(kind, item.get("content"), f"{path}.content")
    yield from _item_parts(item.get("content"), kind, f"{path}.content")


def _item_parts(parts: Any, kind: str, path: str) -> Leaves:
    for index, part in enumerate(objects(parts)):
        where = f"{path}[{index}]"
        match part.get("type"):
            case "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text":
                yield from _said(kind, part.get("text"), f"{where}.text")
            case "refusal":
                yield from _said("refusal", part.get("refusal"), f"{where}.refusal")
            case "input_image":
                yield from _image_item(part, where)
            case "input_file":
                yield from _file(part, where)
            case _:
                yield Leaf("opaque", part, where)


def _image_item(part: Body, path: str) -> Leaves:
    if part.get("image_url") is not None:
        yield located(part["image_url"], path)
    if part.get("file_id") is not None:
        yield filed(part["file_id"], path)


def _call_item(item: Body, path: str) -> Leaves:
    yield call(item.get("name"), item.get("arguments", item.get("input")), path)


def _output_item(item: Body, path: str) -> Leaves:
    yield from _said("result", item.get("output"), f"{path}.output")
    yield from _item_parts(item.get("output"), "result", f"{path}.output")


def _reasoning_item(item: Body, path: str) -> Leaves:
    yield from _item_parts(item.get("summary"), "reasoning", f"{path}.summary")
    yield from _item_parts(item.get("content"), "reasoning", f"{path}.content")
    yield from _said("signature", item.get("encrypted_content"), f"{path}.encrypted_content")


def _made_item(item: Body, path: str) -> Leaves:
    made = item.get("result")
    yield inline(made, path) if isinstance(made, str) and made else Leaf("hosted", item, path)


def _other_item(item: Body, path: str) -> Leaves:
    yield Leaf("hosted", item, path)


_ITEMS: dict[str, Callable[[Body, str], Leaves]] = {
    "message": _message_item,
    "function_call": _call_item,
    "custom_tool_call": _call_item,
    "function_call_output": _output_item,
    "custom_tool_call_output": _output_item,
    "reasoning": _reasoning_item,
    "image_generation_call": _made_item,
}


def claude(body: Body) -> Leaves:
    """Anthropic Messages."""
    yield from _said("system", body.get("system"), "$.system")
    yield from _blocks(body.get("system"), "system", "$.system")
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}].content"
        kind = "system" if message.get("role") == "system" else "text"
        yield from _said(kind, message.get("content"), path)
        yield from _blocks(message.get("content"), kind, path)


def _blocks(blocks: Any, kind: str, path: str) -> Leaves:
    for index, block in enumerate(objects(blocks)):
        yield from _block(block, kind, f"{path}[{index}]")


def _block(block: Body, kind: str, path: str) -> Leaves:
    match block.get("type"):
        case "text":
            yield from _said(kind, block.get("text"), f"{path}.text")
        case "image":
            yield from _source(_holder(block, "source"), path)
        case "document":
            yield from _document(block, path)
        case "search_result":
            yield from _titles(block, ("title", "source"), path)
            yield from _blocks(block.get("content"), "document", f"{path}.content")
        case "thinking":
            yield from _said("reasoning", block.get("thinking"), f"{path}.thinking")
            yield from _said("signature", block.get("signature"), f"{path}.signature")
        case "redacted_thinking":
            yield from _said("signature", block.get("data"), f"{path}.data")
        case "tool_use":
            yield call(block.get("name"), block.get("input"), path)
        case "tool_result":
            yield from _said("result", block.get("content"), f"{path}.content")
            yield from _blocks(block.get("content"), "result", f"{path}.content")
        case str(tag) if tag in _HOSTED_BLOCKS:
            yield Leaf("hosted", block, path)
        case _:
            yield Leaf("opaque", block, path)


_HOSTED_BLOCKS = frozenset(
    {
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "container_upload",
    }
)


def _titles(block: Body, keys: tuple[str, ...], path: str) -> Leaves:
    for key in keys:
        yield from _said("document", block.get(key), f"{path}.{key}")


def _document(block: Body, path: str) -> Leaves:
    yield from _titles(block, ("title", "context"), path)
    source = _holder(block, "source")
    match source.get("type"):
        case "text":
            yield from _said("document", source.get("data"), f"{path}.source.data")
        case "content":
            content = source.get("content")
            yield from _said("document", content, f"{path}.source.content")
            yield from _blocks(content, "document", f"{path}.source.content")
        case _:
            yield from _source(source, path)


def _source(source: Body, path: str) -> Leaves:
    match source.get("type"):
        case "base64":
            yield inline(source.get("data"), f"{path}.source", source.get("media_type"))
        case "url":
            yield located(source.get("url"), f"{path}.source")
        case "file":
            yield filed(source.get("file_id"), f"{path}.source")
        case _:
            yield Leaf("opaque", source, f"{path}.source")


def gemini(body: Body) -> Leaves:
    """Gemini, keys in both spellings."""
    key = spelled(body, "systemInstruction")
    yield from _gemini_parts(body.get(key), "system", f"$.{key}")
    for index, content in enumerate(objects(body.get("contents"))):
        yield from _gemini_parts(content, "text", f"$.contents[{index}]")


def _gemini_parts(content: Any, kind: str, path: str) -> Leaves:
    if isinstance(content, dict):
        for index, part in enumerate(objects(content.get("parts"))):
            yield from _gemini_part(part, kind, f"{path}.parts[{index}]")


def _gemini_part(part: Body, kind: str, path: str) -> Leaves:
    signature = spelled(part, "thoughtSignature")
    yield from _said("signature", part.get(signature), f"{path}.{signature}")
    if isinstance(part.get("text"), str):
        yield from _said("reasoning" if part.get("thought") else kind, part["text"], f"{path}.text")
        return
    if isinstance(get(part, "functionCall"), dict):
        function_call = get(part, "functionCall")
        yield call(function_call.get("name"), function_call.get("args"), path)
    elif isinstance(get(part, "functionResponse"), dict):
        key = spelled(part, "functionResponse")
        yield from _gemini_response(part[key], f"{path}.{key}")
    elif any(get(part, key) is not None for key in _GEMINI_HOSTED):
        yield Leaf("hosted", part, path)
    else:
        yield from _gemini_media(part, path)


_GEMINI_HOSTED = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


def _gemini_response(response: Body, path: str) -> Leaves:
    value = response.get("response")
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("output", "error"):
        value = next(iter(value.values()))
    if isinstance(value, str):
        yield from _said("result", value, f"{path}.response")
    elif value or (value == {} and not response.get("parts")):
        yield Leaf("result", value, f"{path}.response")
    for index, inner in enumerate(objects(response.get("parts"))):
        yield from _gemini_media(inner, f"{path}.parts[{index}]")


def _gemini_media(part: Body, path: str) -> Leaves:
    blob, file = get(part, "inlineData"), get(part, "fileData")
    if isinstance(blob, dict):
        yield inline(blob.get("data"), path, get(blob, "mimeType"))
    elif isinstance(file, dict):
        yield located(get(file, "fileUri"), path)
    elif not set(part) <= {"thought", "thoughtSignature", "thought_signature"}:
        yield Leaf("opaque", part, path)


def _holder(part: Body, key: str) -> Body:
    """The object under a key, empty when it is none."""
    held = part.get(key)
    return held if isinstance(held, dict) else {}


def _said(kind: str, text: Any, path: str) -> Leaves:
    if isinstance(text, str) and text:
        yield Leaf(kind, text, path)


WALKERS: dict[str, Callable[[Body], Leaves]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic_messages": claude,
    "gemini_generate": gemini,
    **{name: judge.leaves for name, judge in JUDGES.items()},
}
