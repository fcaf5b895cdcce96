"""The bodies of the benchmark in other dialects, converted by a minimal hand-written loop.

It handles the plain cases, without a model, checks or a report. The bodies are converted by hand so that no contender
reads its own output.
"""

from __future__ import annotations

from typing import Any

import orjson

Json = dict[str, Any]


def as_anthropic(body: Json) -> Json:
    """Write a Messages body; also measured as a contender: "a loop by hand"."""
    messages: list[Json] = []
    written: Json = {"model": body["model"], "max_tokens": body["max_tokens"]}
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "system":
            written["system"] = content
            continue
        if role == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
            block["content"] = content if isinstance(content, str) else _blocks(content)
            if messages[-1]["role"] == "user":
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "user", "content": [block]})
            continue
        if isinstance(content, list):
            content = _blocks(content)
        if "tool_calls" in message:
            content = [{"type": "text", "text": content}] if content else []
            content.extend(map(_tool_use, message["tool_calls"]))
        messages.append({"role": role, "content": content, **_odd(message)})
    written["messages"] = messages
    _write_anthropic_settings(body, written)
    return written


def _odd(message: Json) -> Json:
    return {key: value for key, value in message.items() if key.startswith("x_")}


def _tool_use(call: Json) -> Json:
    function = call["function"]
    arguments = orjson.loads(function["arguments"])
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _image(part: Json) -> tuple[str, str]:
    """The type of an image, and its base64."""
    kind, _, data = part["image_url"]["url"].partition(";base64,")
    return kind.removeprefix("data:"), data


def _blocks(parts: list[Json]) -> list[Json]:
    blocks: list[Json] = []
    for part in parts:
        if part["type"] == "text":
            blocks.append({"type": "text", "text": part["text"]})
        else:
            kind, data = _image(part)
            source = {"type": "base64", "media_type": kind, "data": data}
            blocks.append({"type": "image", "source": source})
    return blocks


def _write_anthropic_settings(body: Json, written: Json) -> None:
    for name in ("temperature", "top_p", "stream"):
        if name in body:
            written[name] = body[name]
    if "stop" in body:
        written["stop_sequences"] = body["stop"]
    if "tools" in body:
        written["tool_choice"] = {"type": "auto"}
        written["tools"] = [
            {
                "name": tool["function"]["name"],
                "description": tool["function"]["description"],
                "input_schema": tool["function"]["parameters"],
            }
            for tool in body["tools"]
        ]


def as_responses(body: Json) -> Json:
    """Write a Responses body."""
    items: list[Json] = []
    written: Json = {"model": body["model"], "max_output_tokens": body["max_tokens"]}
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "system":
            written["instructions"] = content
            continue
        if isinstance(content, list):
            content = [_input_part(part) for part in content]
        if role == "tool":
            output = {"type": "function_call_output", "call_id": message["tool_call_id"]}
            items.append({**output, "output": content})
            continue
        if content is not None:
            items.append({"role": role, "content": content, **_odd(message)})
        items.extend(
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        )
        if content is None:
            items[-1].update(_odd(message))
    written["input"] = items
    for name in ("temperature", "top_p", "stream", "tool_choice"):
        if name in body:
            written[name] = body[name]
    if "tools" in body:
        written["tools"] = [
            {"type": "function", **tool["function"], "strict": False} for tool in body["tools"]
        ]
    return written


def _input_part(part: Json) -> Json:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "detail": "auto", "image_url": part["image_url"]["url"]}


def as_gemini(body: Json) -> Json:
    """Write a generateContent body; the first call of each step is signed, as Gemini 3 requires."""
    contents: list[Json] = []
    written: Json = {}
    names: dict[str, str] = {}
    for number, message in enumerate(body["messages"]):
        role, content = message["role"], message["content"]
        if role == "system":
            written["systemInstruction"] = {"parts": [{"text": content}]}
            continue
        if role == "tool":
            part = _function_response(message, names)
            if contents[-1]["role"] == "user":
                contents[-1]["parts"].append(part)
            else:
                contents.append({"role": "user", "parts": [part]})
            continue
        parts: list[Json] = (
            [{"text": content}] if isinstance(content, str) else _gemini_parts(content)
        )
        for place, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            names[call["id"]] = function["name"]
            made = {"id": call["id"], "name": function["name"]}
            made["args"] = orjson.loads(function["arguments"])
            parts.append({"functionCall": made})
            if not place:
                parts[-1]["thoughtSignature"] = f"c2lnbmF0dXJl{number:08d}"
        said = {"role": "user" if role == "user" else "model", "parts": parts}
        contents.append({**said, **_odd(message)})
    written["contents"] = contents
    _write_gemini_settings(body, written)
    return written


def _function_response(message: Json, names: dict[str, str]) -> Json:
    content = message["content"]
    made: Json = {"id": message["tool_call_id"], "name": names[message["tool_call_id"]]}
    if isinstance(content, str):
        return {"functionResponse": {**made, "response": {"output": content}}}
    text, *media = _gemini_parts(content)
    response = {"output": text["text"]}
    return {"functionResponse": {**made, "response": response, "parts": media}}


def _gemini_parts(parts: list[Json] | None) -> list[Json]:
    written: list[Json] = []
    for part in parts or ():
        if part["type"] == "text":
            written.append({"text": part["text"]})
        else:
            kind, data = _image(part)
            written.append({"inlineData": {"mimeType": kind, "data": data}})
    return written


def _write_gemini_settings(body: Json, written: Json) -> None:
    config = {"maxOutputTokens": body["max_tokens"]}
    for name, own in (("temperature", "temperature"), ("top_p", "topP"), ("stop", "stopSequences")):
        if name in body:
            config[own] = body[name]
    written["generationConfig"] = config
    if "tools" in body:
        declarations = [
            {
                "name": tool["function"]["name"],
                "description": tool["function"]["description"],
                "parametersJsonSchema": tool["function"]["parameters"],
            }
            for tool in body["tools"]
        ]
        written["tools"] = [{"functionDeclarations": declarations}]
