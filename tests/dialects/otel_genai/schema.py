"""What the JSON schemas of the GenAI conventions ask of attributes, written from them (read 2026-11-18)."""

from __future__ import annotations

from typing import Any

ATTRIBUTES: dict[str, Any] = {
    "gen_ai.request.model": str,
    "gen_ai.request.stream": bool,
    "gen_ai.request.max_tokens": int,
    "gen_ai.request.temperature": (int, float),
    "gen_ai.request.top_p": (int, float),
    "gen_ai.request.top_k": (int, float),
    "gen_ai.request.seed": int,
    "gen_ai.request.presence_penalty": (int, float),
    "gen_ai.request.frequency_penalty": (int, float),
    "gen_ai.request.choice.count": int,
    "gen_ai.request.stop_sequences": list,
    "gen_ai.output.type": str,
    "gen_ai.response.id": str,
    "gen_ai.response.model": str,
    "gen_ai.response.finish_reasons": list,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "gen_ai.usage.cache_read.input_tokens": int,
    "gen_ai.usage.cache_creation.input_tokens": int,
    "gen_ai.usage.reasoning.output_tokens": int,
    "gen_ai.input.messages": list,
    "gen_ai.output.messages": list,
    "gen_ai.system_instructions": list,
    "gen_ai.tool.definitions": list,
}
# Required keys of the parts that the conventions know, and keys that may be there or null.
PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"content": str}, {}),
    "reasoning": ({"content": str}, {}),
    "tool_call": ({"name": str}, {"id": str}),
    "tool_call_response": ({"response": object}, {"id": str}),
    "blob": ({"modality": str, "content": str}, {"mime_type": str, "transcript": str}),
    "file": ({"modality": str, "file_id": str}, {"mime_type": str, "transcript": str}),
    "uri": ({"modality": str, "uri": str}, {"mime_type": str, "transcript": str}),
    "compaction": ({}, {"id": str, "content": str}),
    "server_tool_call": ({"name": str, "server_tool_call": dict}, {"id": str}),
    "server_tool_call_response": ({"server_tool_call_response": dict}, {"id": str}),
}


def problems(body: dict[str, Any]) -> list[str]:
    """Everything that the schemas refuse in the attributes of a span."""
    found = []
    for key, value in body.items():
        if key.startswith("gen_ai.") and not isinstance(value, ATTRIBUTES[key]):
            found.append(f"{key} is {type(value).__name__}")
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        for index, message in enumerate(body.get(key, ())):
            found += [f"{key}[{index}]{problem}" for problem in _message(message)]
    for index, part in enumerate(body.get("gen_ai.system_instructions", ())):
        found += [f"system_instructions[{index}]{problem}" for problem in _part(part)]
    for index, tool in enumerate(body.get("gen_ai.tool.definitions", ())):
        if not isinstance(tool.get("type"), str) or not isinstance(tool.get("name"), str):
            found.append(f"tool.definitions[{index}] has no type or no name")
    return found


def _message(message: dict[str, Any]) -> list[str]:
    found = [] if isinstance(message.get("role"), str) else [" has no role"]
    if not isinstance(message.get("finish_reason", ""), str):
        found.append(".finish_reason is no text")
    for index, part in enumerate(message["parts"]):
        found += [f".parts[{index}]{problem}" for problem in _part(part)]
    return found


def _part(part: dict[str, Any]) -> list[str]:
    if not isinstance(part.get("type"), str):
        return [" has no type"]
    required, optional = PARTS.get(part["type"], ({}, {}))
    found = [f" has no {key}" for key in required if key not in part]
    given = {**required, **optional}.items()
    for key, kind in given:
        if part.get(key) is not None and not isinstance(part[key], kind):
            found.append(f".{key} is {type(part[key]).__name__}")
    return found
