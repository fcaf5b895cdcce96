"""Bodies of Mistral chat completions."""

from __future__ import annotations

from typing import Any

from .pieces import PDF, SCHEMA, WAV, Body, Dice, results_for, standard


def request(dice: Dice) -> Body:
    """A request: turns, then tools and controls that fit together."""
    messages = dice.some(lambda: _system(dice), most=2)
    for turn in dice.some(lambda: _turn(dice), least=2, most=5):
        messages += turn
    if dice.orderly:
        messages.append({"role": "user", "content": dice.text()})
    elif dice.maybe(1):
        messages.append({"role": "assistant", "content": dice.text(), "prefix": dice.maybe(5)})
    body: Body = {"model": "mistral-large-latest", "messages": messages}
    return dice.dress(body | _tools(dice) | _controls(dice))


def response(dice: Dice) -> Body:
    """A whole response with one or more choices."""
    choices = dice.some(lambda: _choice(dice), least=1, most=2)
    for index, choice in enumerate(choices):
        choice["index"] = index
    usage: Body = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    usage |= dice.subset(
        prompt_tokens_details=lambda: dice.dress({"cached_tokens": 1}),
        num_cached_tokens=lambda: 1,
    )
    body: Body = {
        "id": f"{dice.next():032x}",
        "object": "chat.completion",
        "created": 1763164800,
        "model": "mistral-large-latest",
        "choices": choices,
        "usage": dice.dress(usage),
    }
    return dice.dress(body)


def _system(dice: Dice) -> Body:
    return dice.dress({"role": "system", "content": _words(dice)})


def _words(dice: Dice) -> Any:
    """Text as a string or as text chunks."""
    if dice.maybe(6):
        return dice.text()
    return dice.some(lambda: _text(dice), least=1, most=2)


def _text(dice: Dice) -> Body:
    return dice.dress({"type": "text", "text": dice.text()})


def _turn(dice: Dice) -> list[Body]:
    return dice.pick(_user, _user, _assistant, _calls, _calls, _late_system)(dice)


def _late_system(dice: Dice) -> list[Body]:
    return [*_user(dice), _system(dice)] if dice.orderly else [_system(dice)]


def _user(dice: Dice) -> list[Body]:
    content: Any = _words(dice)
    if dice.maybe(6):
        content = dice.some(lambda: _part(dice), least=1 if dice.orderly else 0, most=3)
    elif not dice.orderly and dice.maybe(1):
        content = None
    return [dice.dress({"role": "user", "content": content})]


def _part(dice: Dice) -> Body:
    if dice.extras and dice.maybe(3):
        return dice.unknown()
    return dice.pick(_text, _image, _audio, _document, _file)(dice)


def _image(dice: Dice) -> Body:
    url = "https://example.com/a.png" if dice.maybe(3) else dice.data_url(*dice.image())
    if dice.maybe(4):
        return dice.dress({"type": "image_url", "image_url": url})
    image = dice.dress({"url": url, **dice.subset(detail=lambda: dice.pick("auto", "low", None))})
    return dice.dress({"type": "image_url", "image_url": image})


def _audio(dice: Dice) -> Body:
    data = standard(WAV)
    sound = dice.pick(data, f"data:audio/wav;base64,{data}", "https://example.com/a.mp3")
    return dice.dress({"type": "input_audio", "input_audio": sound})


def _document(dice: Dice) -> Body:
    inline = "data:application/pdf;base64," + standard(PDF)
    part: Body = {"type": "document_url"}
    part["document_url"] = dice.pick(inline, "https://example.com/a.pdf")
    return dice.dress(part | dice.subset(document_name=lambda: dice.pick("a.pdf", None)))


def _file(dice: Dice) -> Body:
    return dice.dress({"type": "file", "file_id": "file-1"})


def _thinking(dice: Dice) -> Body:
    texts = dice.some(lambda: {"type": "text", "text": dice.text()}, least=1, most=2)
    chunk: Body = {"type": "thinking", "thinking": texts}
    return dice.dress(
        chunk | dice.subset(closed=lambda: dice.maybe(5), signature=lambda: "c2lnbmVk")
    )


def _said(dice: Dice) -> Any:
    """What the model said."""
    if dice.maybe(6):
        return _words(dice)
    chunks = [_thinking(dice)] if dice.maybe(5) else []
    chunks.append(_text(dice))
    if dice.maybe(4):
        chunks.append(dice.dress({"type": "reference", "reference_ids": [0, "a"]}))
        chunks.append(_text(dice))
    return chunks


def _assistant(dice: Dice) -> list[Body]:
    message: Body = {"role": "assistant", "content": _said(dice)}
    message |= dice.subset(prefix=lambda: False, tool_calls=lambda: None)
    return [dice.dress(message)]


def _calls(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), least=1, most=3)
    message: Body = {"role": "assistant", "tool_calls": calls}
    if dice.maybe(7):
        message["content"] = dice.pick(None, "", _said(dice))
    identifiers = list(dict.fromkeys(call.get("id", "null") for call in calls))
    if dice.orderly and len(identifiers) < len(calls):
        message["tool_calls"] = calls[:1]
        identifiers = identifiers[:1]
    results = [_result(dice, identifier) for identifier in results_for(dice, identifiers)]
    return [dice.dress(message), *results]


def _call(dice: Dice) -> Body:
    arguments = dice.object() if dice.maybe(3) else dice.argument_text()
    call: Body = {"function": dice.dress({"name": dice.name(), "arguments": arguments})}
    if dice.orderly or dice.maybe(8):
        call["id"] = f"a{dice.next():08}" if dice.orderly or dice.maybe(7) else "null"
    return dice.dress(call | dice.subset(type=lambda: "function", index=lambda: 0))


def _result(dice: Dice, identifier: str) -> Body:
    message: Body = {"role": "tool", "tool_call_id": identifier, "content": _words(dice)}
    if not dice.orderly and dice.maybe(1):
        message["tool_call_id"] = None
    if not dice.orderly and dice.maybe(1):
        message["content"] = None
    return dice.dress(message | dice.subset(name=lambda: dice.pick("f", "get_weather")))


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(dice.some(dice.name, least=1, most=3))
    body: Body = {"tools": [_tool(dice, name) for name in names]}
    if dice.maybe(4):
        named = {"type": "function", "function": {"name": next(iter(names))}}
        body["tool_choice"] = dice.pick("auto", "none", "any", "required", named)
    return body | dice.subset(parallel_tool_calls=lambda: dice.maybe(5))


def _tool(dice: Dice, name: str) -> Body:
    function: Body = {"name": name, "parameters": dict(SCHEMA)}
    function |= dice.subset(description=dice.text, strict=lambda: dice.pick(True, False))
    return dice.dress({"type": "function", "function": dice.dress(function)})


def _controls(dice: Dice) -> Body:
    return dice.subset(
        temperature=lambda: dice.pick(0, 0.5, None),
        top_p=lambda: dice.pick(1, 0.1, None),
        max_tokens=lambda: dice.pick(64, None),
        stop=lambda: dice.pick("END", ["a", "b"], None),
        random_seed=lambda: dice.pick(7, None),
        reasoning_effort=lambda: dice.pick("low", "high", None),
        metadata=lambda: dice.pick({}, {"k": 1}, None),
        response_format=lambda: _format(dice),
        n=lambda: dice.pick(2, None),
        stream=lambda: dice.maybe(5),
        safe_prompt=lambda: dice.maybe(5),
        prompt_mode=lambda: dice.pick("reasoning", None),
    )


def _format(dice: Dice) -> Body:
    json_schema = dice.dress({"name": "out", "schema": dict(SCHEMA), "strict": True})
    return dice.pick(
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": json_schema},
    )


def _choice(dice: Dice) -> Body:
    message: Body = {"role": "assistant", "content": dice.pick(_said(dice), "")}
    finish = dice.pick("stop", "length", "model_length", "error")
    if dice.maybe(4):
        message["tool_calls"] = dice.some(lambda: _call(dice), least=1, most=3)
        finish = "tool_calls"
    else:
        message |= dice.subset(tool_calls=lambda: None, prefix=lambda: False)
    return dice.dress({"index": 0, "message": dice.dress(message), "finish_reason": finish})
