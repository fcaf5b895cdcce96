"""Checks translations for completeness: searches the output for the content of the source, and names missing parts.

A peer that drops something is still timed, but its row names what it drops.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

# Fields beside the conversation in one dialect, and their spellings in the others.
SETTINGS: dict[str, tuple[str, ...]] = {
    "max_tokens": ("max_tokens", "maxOutputTokens", "max_output_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "stop": ("stop", "stop_sequences", "stopSequences"),
}


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, including keys, and the strings inside strings that are JSON objects."""
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            try:
                yield from strings(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def _said(content: Any, kind: str = "texts") -> Iterator[tuple[str, str]]:
    if isinstance(content, str):
        yield kind, content
        return
    for part in content or ():
        if part["type"] == "text":
            yield kind, part["text"]
        elif part["type"] == "image_url":
            # Some use the URL-safe alphabet of base64.
            data = part["image_url"]["url"].partition(";base64,")[2]
            yield "images", data.replace("+", "-").replace("/", "_")


def facts(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The content of the conversation in an OpenAI body: pairs of a kind and text."""
    for message in body["messages"]:
        role = message["role"]
        yield from _said(message["content"], "results" if role == "tool" else "texts")
        for call in message.get("tool_calls", ()):
            yield "calls", call["function"]["name"]
            for given in json.loads(call["function"]["arguments"]).values():
                if isinstance(given, str):
                    yield "arguments", given
        for name, value in message.items():
            if name.startswith("x_"):
                yield "an unknown field", value["span"]
    for tool in body.get("tools", ()):
        yield "tools", tool["function"]["name"]
        yield "tools", tool["function"]["parameters"]["properties"]["path"]["description"]


def dropped(body: dict[str, Any], written: dict[str, Any]) -> list[str]:
    """The parts of an OpenAI body that are missing from its translation, as text: "4 of 10 images"."""
    found = set(strings(written))
    joined = "\0".join(found)
    safe = {
        text.replace("+", "-").replace("/", "_").rpartition(",")[2]
        for text in found
        if len(text) > 9999
    }
    seen: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for kind, words in facts(body):
        seen[kind] += 1
        if kind == "images":
            is_there = words.rstrip("=") in {text.rstrip("=") for text in safe}
        else:
            is_there = words in found or words in joined
        missing[kind] += not is_there
    names = set(_keys(written))
    missing_settings = [
        setting
        for setting, spellings in SETTINGS.items()
        if setting in body and names.isdisjoint(spellings)
    ]
    return [
        f"{count} of {seen[kind]} {kind}" if seen[kind] > 1 else kind
        for kind, count in missing.items()
        if count
    ] + missing_settings


def _keys(written: dict[str, Any]) -> Iterator[str]:
    yield from written
    for name in ("generationConfig", "generation_config", "config"):
        yield from written.get(name) or ()
