"""Bodies of Cohere's chat."""

from __future__ import annotations

from typing import Any

from .pieces import SCHEMA, Body, Dice, results_for


def request(dice: Dice) -> Body:
    """A request: documents, turns, then tools and settings that fit together."""
    messages = dice.some(lambda: _system(dice), most=2)
    for turn in dice.some(lambda: _turn(dice), least=2, most=5):
        messages += turn
    if dice.orderly:
        messages.append({"role": "user", "content": dice.text()})
    body: Body = {"model": "command-a-03-2025", "messages": messages}
    if dice.maybe(4):
        body["documents"] = dice.some(lambda: _document(dice), least=1, most=3)
    body |= _tools(dice)
    takes_format = not (dice.orderly and body.keys() & {"tools", "documents"})
    return dice.dress(body | _settings(dice, takes_format=takes_format))


def response(dice: Dice) -> Body:
    """A whole response."""
    message: Body = {"role": "assistant"}
    finish = dice.pick("COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TIMEOUT")
    if dice.maybe(4):
        message["tool_calls"] = dice.some(lambda: _call(dice), least=1, most=3)
        message |= dice.subset(tool_plan=dice.text)
        finish = "TOOL_CALL"
    if "tool_calls" not in message or dice.maybe(3):
        _say(dice, message)
    usage: Body = {
        "billed_units": {"input_tokens": 3, "output_tokens": 4},
        "tokens": dice.dress({"input_tokens": 5, "output_tokens": 4}),
    }
    usage |= dice.subset(cached_tokens=lambda: 2)
    body: Body = {
        "id": f"c{dice.next():08}-0000",
        "finish_reason": finish,
        "message": dice.dress(message),
        "usage": dice.dress(usage),
    }
    return dice.dress(
        body | dice.subset(logprobs=lambda: [{"token_ids": [1], "logprobs": [-0.5], "text": "a"}])
    )


def _system(dice: Dice) -> Body:
    return dice.dress({"role": "system", "content": _words(dice)})


def _words(dice: Dice) -> Any:
    """Text as a string or as text parts."""
    if dice.maybe(6):
        return dice.text()
    return dice.some(lambda: _text(dice), least=1, most=2)


def _text(dice: Dice) -> Body:
    return dice.dress({"type": "text", "text": dice.text()})


def _turn(dice: Dice) -> list[Body]:
    return dice.pick(_user, _user, _assistant, _calls, _calls, _late_system)(dice)


def _late_system(dice: Dice) -> list[Body]:
    return [_system(dice)]


def _user(dice: Dice) -> list[Body]:
    content = _words(dice)
    if dice.maybe(5):
        content = dice.some(lambda: _part(dice), least=1, most=3)
    return [dice.dress({"role": "user", "content": content})]


def _part(dice: Dice) -> Body:
    if dice.extras and dice.maybe(3):
        return dice.unknown()
    return dice.pick(_text, _image)(dice)


def _image(dice: Dice) -> Body:
    url = "https://example.com/a.png" if dice.maybe(3) else dice.data_url(*dice.image())
    detail = dice.subset(detail=lambda: dice.pick("auto", "low", "high"))
    return dice.dress({"type": "image_url", "image_url": dice.dress({"url": url, **detail})})


def _say(dice: Dice, message: Body) -> None:
    """What the model said: thoughts, texts and what they cite."""
    parts = [dice.dress({"type": "thinking", "thinking": dice.text()})] if dice.maybe(4) else []
    parts += dice.some(lambda: _text(dice), least=1, most=2)
    message["content"] = parts
    if dice.maybe(4):
        message["citations"] = dice.some(lambda: _citation(dice, parts), least=1, most=3)


def _citation(dice: Dice, parts: list[Body]) -> Body:
    index = len(parts) - 1
    words = parts[index]["text"]
    end = min(len(words), 3)
    sources = [
        {"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "T"}},
        {"type": "tool", "id": "call:0", "tool_output": {"content": "4 degrees"}},
        {"type": "document", "id": "web", "document": {"url": "https://example.com/a"}},
    ]
    citation: Body = {"start": 0, "end": end, "text": words[:end]}
    citation["sources"] = dice.some(lambda: dice.dress(dice.pick(*sources)), least=1, most=2)
    kinds = ("TEXT_CONTENT", "TEXT_CONTENT", "PLAN", "THINKING_CONTENT")
    return dice.dress(
        citation | dice.subset(content_index=lambda: index, type=lambda: dice.pick(*kinds))
    )


def _assistant(dice: Dice) -> list[Body]:
    message: Body = {"role": "assistant"}
    if dice.maybe(5):
        message["content"] = dice.text()
    else:
        _say(dice, message)
    return [dice.dress(message)]


def _calls(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), least=1, most=3)
    message: Body = {"role": "assistant", "tool_calls": calls, **dice.subset(tool_plan=dice.text)}
    if dice.maybe(3):
        message["content"] = dice.pick(None, dice.text())
    identifiers = list(dict.fromkeys(call["id"] for call in calls))
    if dice.orderly and len(identifiers) < len(calls):
        message["tool_calls"], identifiers = calls[:1], identifiers[:1]
    results = [_result(dice, identifier) for identifier in results_for(dice, identifiers)]
    return [dice.dress(message), *results]


def _call(dice: Dice) -> Body:
    function = dice.dress({"name": dice.name(), "arguments": dice.argument_text()})
    return dice.dress({"id": dice.identifier("call_"), "type": "function", "function": function})


def _result(dice: Dice, identifier: str) -> Body:
    content: Any = dice.text()
    if dice.maybe(5):
        content = dice.some(lambda: dice.pick(_text, _data, _data)(dice), least=1, most=3)
    return dice.dress({"role": "tool", "tool_call_id": identifier, "content": content})


def _data(dice: Dice) -> Body:
    document = {"data": dice.object(), **dice.subset(id=lambda: "d1")}
    return dice.dress({"type": "document", "document": dice.dress(document)})


def _document(dice: Dice) -> Any:
    if dice.maybe(3):
        return dice.text()
    data = dice.pick(
        {"text": dice.text()},
        {"title": "T", "snippet": dice.text()},
        {"title": "T", "text": dice.text(), "url": "https://example.com/a"},
        {"rows": [1, 2], "note": dice.text()},
    )
    return dice.dress({"data": data, **dice.subset(id=lambda: f"doc{dice.next()}")})


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(dice.some(dice.name, least=1, most=3))
    body: Body = {"tools": [_tool(dice, name) for name in names]}
    return body | dice.subset(
        tool_choice=lambda: dice.pick("REQUIRED", "NONE"), strict_tools=lambda: dice.maybe(5)
    )


def _tool(dice: Dice, name: str) -> Body:
    function: Body = {"name": name, "parameters": dict(SCHEMA)}
    function |= dice.subset(description=dice.text)
    return dice.dress({"type": "function", "function": dice.dress(function)})


def _settings(dice: Dice, *, takes_format: bool) -> Body:
    shape = dice.subset(response_format=lambda: _format(dice)) if takes_format else {}
    return shape | dice.subset(
        temperature=lambda: dice.pick(0, 0.5, None),
        p=lambda: dice.pick(0.75, 0.1, None),
        k=lambda: dice.pick(0, 40, None),
        max_tokens=lambda: dice.pick(64, None),
        stop_sequences=lambda: dice.pick(["END"], ["a", "b"], None),
        seed=lambda: dice.pick(7, None),
        frequency_penalty=lambda: dice.pick(0, 0.5),
        presence_penalty=lambda: dice.pick(0, 0.5),
        thinking=lambda: _thinking(dice),
        safety_mode=lambda: dice.pick("CONTEXTUAL", "STRICT", "OFF"),
        citation_options=lambda: {"mode": dice.pick("FAST", "ACCURATE", "OFF")},
        logprobs=lambda: dice.maybe(5),
        priority=lambda: 1,
        stream=lambda: dice.maybe(5),
    )


def _thinking(dice: Dice) -> Body:
    budget = {"type": "enabled", "token_budget": 512}
    return dice.dress(dice.pick({"type": "enabled"}, {"type": "disabled"}, budget))


def _format(dice: Dice) -> Body:
    schema = {"type": "json_object", "json_schema": dict(SCHEMA)}
    return dice.dress(dice.pick({"type": "text"}, {"type": "json_object"}, schema))
