"""Bodies of Anthropic Messages."""

from __future__ import annotations

from typing import Any

from .pieces import PDF, SCHEMA, Body, Dice, results_for, standard

_SEALED = "EqQBCkYIBxgCKkBsealed"
_MARK: Body = {"type": "ephemeral"}


def request(dice: Dice) -> Body:
    """A request: an optional system prompt, turns that begin with the user when orderly."""
    messages = [_user(dice)] if dice.orderly else []
    for turn in dice.some(lambda: _turn(dice), 1, 4):
        messages += turn
    body: Body = {"model": "claude-opus-5-5", "max_tokens": 4096, "messages": messages}
    body |= dice.subset(system=lambda: _words(dice))
    tools, controls = _tools(dice), _controls(dice)
    thinks = controls.get("thinking", {"type": "disabled"})["type"] != "disabled"
    if thinks and tools.get("tool_choice", {}).get("type") in ("any", "tool"):
        # Thinking leaves no room for a forced tool.
        del tools["tool_choice"]
    return dice.dress({**body, **tools, **controls})


def response(dice: Dice) -> Body:
    """A whole response."""
    content = dice.some(lambda: _said(dice, for_response=True), 0, 3)
    has_calls = any(block["type"] == "tool_use" for block in content)
    usage: Body = {"input_tokens": 3, "output_tokens": 4}
    usage |= dice.subset(cache_read_input_tokens=lambda: 1, service_tier=lambda: "standard")
    return dice.dress(
        {
            "id": f"msg_{dice.next()}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": content,
            "stop_reason": "tool_use" if has_calls else dice.pick("end_turn", "max_tokens"),
            "stop_sequence": None,
            "usage": dice.dress(usage),
        }
    )


def _marks(dice: Dice) -> Body:
    if dice.orderly or not dice.maybe(2):
        return {}
    return {"cache_control": dice.pick(dict(_MARK), {**_MARK, "ttl": "1h"}, None)}


def _words(dice: Dice) -> Any:
    if dice.maybe(6):
        return dice.text()
    return dice.some(lambda: _text(dice), 1, 2)


def _text(dice: Dice) -> Body:
    block: Body = {"type": "text", "text": dice.text(), **_marks(dice)}
    return dice.dress(block | dice.subset(citations=lambda: None))


def _turn(dice: Dice) -> list[Body]:
    """A piece of conversation that leaves the floor to either side."""
    kinds = (_plain_exchange, _plain_exchange, _tool_exchange, _tool_exchange, _late_system)
    return dice.pick(*kinds)(dice)


def _plain_exchange(dice: Dice) -> list[Body]:
    if dice.orderly or dice.maybe(6):
        return [_assistant(dice), _user(dice)]
    return [dice.pick(_assistant, _user)(dice)]


def _late_system(dice: Dice) -> list[Body]:
    system = dice.dress({"role": "system", "content": _words(dice)})
    if not dice.orderly:
        return [system]
    return [_user(dice), system, _assistant(dice), _user(dice)]


def _user(dice: Dice) -> Body:
    content = _words(dice)
    if dice.maybe(4):
        content = dice.some(lambda: _shown(dice), 1 if dice.orderly else 0, 3)
    return dice.dress({"role": "user", "content": content})


def _shown(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return dice.unknown()
    return dice.pick(_text, _image, _document, _search_result)(dice)


def _image(dice: Dice) -> Body:
    media_type, data = dice.image()
    source: Body = dice.pick(
        {"type": "base64", "media_type": media_type, "data": standard(data)},
        {"type": "url", "url": "https://example.com/a.png"},
        {"type": "file", "file_id": "file_1"},
    )
    return dice.dress({"type": "image", "source": dice.dress(dict(source)), **_marks(dice)})


def _document(dice: Dice) -> Body:
    source: Body = dice.pick(
        {"type": "base64", "media_type": "application/pdf", "data": standard(PDF)},
        {"type": "text", "media_type": "text/plain", "data": dice.text() or "x"},
        {"type": "content", "content": [_text(dice)]},
        {"type": "content", "content": dice.text()},
        {"type": "url", "url": "https://example.com/a.pdf"},
        {"type": "file", "file_id": "file_2"},
    )
    block: Body = {"type": "document", "source": dice.dress(dict(source)), **_marks(dice)}
    return dice.dress(
        block
        | dice.subset(
            title=lambda: dice.pick("T", None),
            context=lambda: dice.pick("C", None),
            citations=lambda: dice.pick({"enabled": True}, None),
        )
    )


def _search_result(dice: Dice) -> Body:
    content = dice.some(lambda: _text(dice), 1, 2)
    block: Body = {"type": "search_result", "source": "kb", "title": "S", "content": content}
    return dice.dress(block)


def _assistant(dice: Dice) -> Body:
    content: Any = dice.text()
    if dice.maybe(5):
        content = dice.some(lambda: _uncalled(dice), 1 if dice.orderly else 0, 3)
    return dice.dress({"role": "assistant", "content": content})


def _uncalled(dice: Dice) -> Body:
    block = _said(dice, for_response=False)
    return _text(dice) if dice.orderly and block["type"] == "tool_use" else block


def _said(dice: Dice, *, for_response: bool) -> Body:
    if dice.extras and dice.maybe(2):
        return dice.unknown()
    if dice.maybe(3):
        return _thinking(dice)
    if dice.maybe(2):
        return _call(dice)
    text = _cited(dice) if dice.maybe(1) else _text(dice)
    if for_response:
        text.pop("cache_control", None)
    return text


def _thinking(dice: Dice) -> Body:
    if dice.maybe(2):
        return dice.dress({"type": "redacted_thinking", "data": _SEALED})
    thinking = dice.pick(dice.text(), "")
    return dice.dress({"type": "thinking", "thinking": thinking, "signature": _SEALED})


def _cited(dice: Dice) -> Body:
    place: Body = {"type": "char_location", "cited_text": "c", "document_index": 0}
    place |= {"document_title": None, "start_char_index": 0, "end_char_index": 1}
    return dice.dress({"type": "text", "text": dice.text(), "citations": [dice.dress(place)]})


def _call(dice: Dice) -> Body:
    block: Body = {"type": "tool_use", "id": dice.identifier("toolu_"), "name": dice.name()}
    block["input"] = dice.object()
    return dice.dress(block | dice.subset(caller=lambda: {"type": "direct"}))


def _tool_exchange(dice: Dice) -> list[Body]:
    said = dice.some(lambda: _uncalled(dice), 0, 2)
    calls = dice.some(lambda: _call(dice), 1, 3)
    asked = dice.dress({"role": "assistant", "content": [*said, *calls]})
    identifiers = list(dict.fromkeys(call["id"] for call in calls))
    content = [_result(dice, identifier) for identifier in results_for(dice, identifiers)]
    if dice.maybe(3):
        content.append(_text(dice))
    return [asked, dice.dress({"role": "user", "content": content})]


def _result(dice: Dice, identifier: str) -> Body:
    block: Body = {"type": "tool_result", "tool_use_id": identifier, **_marks(dice)}
    block |= dice.subset(is_error=lambda: dice.maybe(5))
    if dice.maybe(8):
        block["content"] = dice.pick("", dice.text())
    if dice.maybe(3):
        block["content"] = dice.some(lambda: _shown(dice), 0, 2)
    return dice.dress(block)


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(dice.some(dice.name, 1, 3))
    body: Body = {"tools": [_tool(dice, name) for name in names]}
    if dice.maybe(4):
        named = {"type": "tool", "name": next(iter(names))}
        every = {"type": "any", "disable_parallel_tool_use": True}
        body["tool_choice"] = dice.dress(
            dict(dice.pick({"type": "auto"}, every, named, {"type": "none"}))
        )
    return body


def _tool(dice: Dice, name: str) -> Body:
    tool: Body = {"name": name, "input_schema": dict(SCHEMA), **_marks(dice)}
    return dice.dress(tool | dice.subset(description=dice.text, strict=lambda: True))


def _controls(dice: Dice) -> Body:
    controls = dice.subset(
        temperature=lambda: dice.pick(0, 0.5, 1),
        top_p=lambda: dice.pick(1, 0.1),
        top_k=lambda: 40,
        stop_sequences=lambda: dice.pick(["END"], []),
        metadata=lambda: dice.pick({}, {"user_id": "u"}, {"user_id": None}),
        thinking=lambda: dict(
            dice.pick(
                {"type": "disabled"},
                {"type": "adaptive"},
                {"type": "enabled", "budget_tokens": 1024},
            )
        ),
        output_config=lambda: dice.dress({"effort": "low"}),
        stream=lambda: dice.maybe(5),
        container=lambda: None,
    )
    if controls.get("thinking", {"type": "disabled"})["type"] == "disabled":
        return controls
    # Thinking leaves no room for these.
    sampling = {"temperature", "top_p", "top_k"}
    return {key: value for key, value in controls.items() if key not in sampling}
