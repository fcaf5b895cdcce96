"""OpenRouter's ``reasoning_details``: items beside the content, each a text, a summary or an encrypted payload.

An item names the format of its signature or payload, which only the provider that produced it can read; fields other
than the text are returned unchanged. In a stream, items of the same type and index continue each other
(https://openrouter.ai/docs/use-cases/reasoning-tokens, 2026-11-18).
"""

from __future__ import annotations

from typing import Any

from cannery.messages.content import Origin, ReasoningContentClass, new_reasoning
from cannery.wire.bodies import Object

DETAILS = "reasoning_details"
_TEXT, _SUMMARY, _ENCRYPTED = "reasoning.text", "reasoning.summary", "reasoning.encrypted"
# The text field of an item, and the channel that streams it.
_WORDS = {_TEXT: "text", _SUMMARY: "summary", _ENCRYPTED: "data"}
_CHANNELS = {"text": _TEXT, "summary": _SUMMARY, "encrypted": _ENCRYPTED, "signature": _TEXT}


# A thought, and the other fields of its item.
Detail = tuple[ReasoningContentClass, Object]


def read_detail(item: Any, origin: Origin) -> Detail | None:
    """The thought in an item, and the item's other fields; None for an unknown item."""
    kind = item.get("type") if type(item) is dict else None
    key = _WORDS.get(kind) if type(kind) is str else None
    if key is None:
        return None
    words, signature = item.get(key), item.get("signature")
    taken = ["type"]
    if type(words) is str:
        taken.append(key)
    if kind == _TEXT and type(signature) is str:
        taken.append("signature")
    if len(taken) == 1:
        return None
    said = (words,) if key in taken else ()
    held = new_reasoning(
        said if kind == _TEXT else (),
        said if kind == _SUMMARY else (),
        signature if "signature" in taken else None,
        words if kind == _ENCRYPTED else None,
        origin,
    )
    return held, {name: value for name, value in item.items() if name not in taken}


def read_details(items: Any, origin: Origin) -> list[Detail]:
    """The thoughts in all items; none unless every item is understood."""
    read = [read_detail(item, origin) for item in items] if type(items) is list else []
    found = [each for each in read if each is not None]
    return found if len(found) == len(read) else []


def write_detail(held: ReasoningContentClass) -> Object:
    """The item of a thought."""
    if held.encrypted is not None:
        return {"type": _ENCRYPTED, "data": held.encrypted}
    if held.summaries:
        return {"type": _SUMMARY, "summary": "\n\n".join(held.summaries)}
    item: Object = {"type": _TEXT}
    if held.texts:
        item["text"] = "".join(held.texts)
    if held.signature is not None:
        item["signature"] = held.signature
    return item


def goes_on(item: Object, before: Object | None) -> bool:
    """Whether a stream's item continues the one before it; a payload always arrives whole."""
    if before is None or item["type"] == _ENCRYPTED:
        return False
    return all(item.get(key) == before.get(key) for key in ("type", "index"))


def pieces_of(held: ReasoningContentClass) -> list[tuple[str, str]]:
    """The text in a stream's item: the channel and the text."""
    found = [("text", words) for words in held.texts]
    found += [("summary", words) for words in held.summaries]
    found += [("encrypted", held.encrypted or ""), ("signature", held.signature or "")]
    return [(channel, words) for channel, words in found if words]


def piece(channel: str, words: str) -> Object:
    """A stream's item that continues one channel."""
    kind = _CHANNELS[channel]
    return {"type": kind, "signature" if channel == "signature" else _WORDS[kind]: words}
