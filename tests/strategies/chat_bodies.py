"""Bodies of OpenAI Chat Completions."""

from __future__ import annotations

from typing import Any

from .pieces import PDF, SCHEMA, WAV, Body, Dice, results_for, standard


def request(dice: Dice) -> Body:
    """A request: turns, then tools and controls that fit together."""
    messages = dice.some(lambda: _preamble(dice), most=1)
    for turn in dice.some(lambda: _turn(dice), least=2, most=5):
        messages += turn
    body: Body = {"model": "gpt-5.5", "messages": messages, **_tools(dice), **_controls(dice)}
    return dice.dress(body)


def response(dice: Dice) -> Body:
    """A whole response with one or more choices."""
    choices = dice.some(lambda: _choice(dice), least=1, most=2)
    for index, choice in enumerate(choices):
        choice["index"] = index
    body: Body = {
        "id": f"chatcmpl-{dice.next()}",
        "object": "chat.completion",
        "created": 1763164800,
        "model": "gpt-5.5",
        "choices": choices,
        **dice.subset(usage=lambda: _usage(dice), system_fingerprint=lambda: "fp_1"),
    }
    return dice.dress(body)


def _preamble(dice: Dice) -> Body:
    role = dice.pick("system", "developer")
    return dice.dress({"role": role, "content": _words(dice), **_name(dice)})


def _name(dice: Dice) -> Body:
    return {"name": "alice"} if dice.maybe(1) else {}


def _words(dice: Dice) -> Any:
    """Text as a string or as text parts."""
    if dice.maybe(6):
        return dice.text()
    return dice.some(lambda: _text(dice), least=1, most=2)


def _text(dice: Dice) -> Body:
    part: Body = {"type": "text", "text": dice.text()}
    if dice.maybe(1) and not dice.orderly:
        part["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": dice.pick("30m", "12h")}
    return dice.dress(part)


def _turn(dice: Dice) -> list[Body]:
    kinds = (_user, _user, _assistant, _calls, _calls, _late_system, _legacy)
    return dice.pick(*kinds)(dice)


def _user(dice: Dice) -> list[Body]:
    content: Any = _words(dice)
    if dice.maybe(6):
        content = dice.some(lambda: _part(dice), least=1 if dice.orderly else 0, most=3)
    return [dice.dress({"role": "user", "content": content, **_name(dice)})]


def _part(dice: Dice) -> Body:
    if dice.extras and dice.maybe(3):
        return dice.unknown()
    return dice.pick(_text, _image, _audio, _file)(dice)


def _image(dice: Dice) -> Body:
    url = "https://example.com/a.png" if dice.maybe(3) else dice.data_url(*dice.image())
    image = dice.dress({"url": url, **dice.subset(detail=lambda: dice.pick("auto", "low", "high"))})
    return dice.dress({"type": "image_url", "image_url": image})


def _audio(dice: Dice) -> Body:
    audio = dice.dress({"data": standard(WAV), "format": "wav"})
    return dice.dress({"type": "input_audio", "input_audio": audio})


def _file(dice: Dice) -> Body:
    file: Body = dice.pick(
        {"file_id": "file-1"},
        {"file_data": standard(PDF)},
        {"file_data": "data:application/pdf;base64," + standard(PDF), "filename": "a.pdf"},
    )
    return dice.dress({"type": "file", "file": dice.dress(dict(file))})


def _assistant(dice: Dice) -> list[Body]:
    message: Body = {"role": "assistant", "content": _words(dice)}
    if dice.maybe(2):
        message["content"] = [dice.dress({"type": "refusal", "refusal": dice.text()})]
    elif dice.maybe(1):
        message |= {"content": None, "refusal": dice.text() or "no"}
    message |= dice.subset(function_call=lambda: None, audio=lambda: None)
    if dice.extras and dice.maybe(3):
        message["reasoning_content"] = dice.text()
    return [dice.dress(message)]


def _calls(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), least=1, most=3)
    message: Body = {"role": "assistant", "tool_calls": calls}
    if dice.maybe(7):
        message["content"] = dice.pick(None, "", dice.text())
    identifiers = list(dict.fromkeys(call["id"] for call in calls))
    if dice.orderly and len(identifiers) < len(calls):
        message["tool_calls"] = calls[:1]
        identifiers = identifiers[:1]
    results = [_result(dice, identifier) for identifier in results_for(dice, identifiers)]
    return [dice.dress(message), *results]


def _call(dice: Dice) -> Body:
    identifier, name = dice.identifier("call_"), dice.name()
    if dice.maybe(1):
        custom = dice.dress({"name": name, "input": dice.text()})
        return dice.dress({"id": identifier, "type": "custom", "custom": custom})
    function = dice.dress({"name": name, "arguments": dice.argument_text()})
    return dice.dress({"id": identifier, "type": "function", "function": function})


def _result(dice: Dice, identifier: str) -> Body:
    return dice.dress({"role": "tool", "tool_call_id": identifier, "content": _words(dice)})


def _late_system(dice: Dice) -> list[Body]:
    return [_preamble(dice)]


def _legacy(dice: Dice) -> list[Body]:
    name = dice.name()
    call = dice.dress({"name": name, "arguments": dice.argument_text()})
    asked = dice.dress({"role": "assistant", "content": dice.pick(None, ""), "function_call": call})
    content = dice.pick(dice.text(), None)
    return [asked, dice.dress({"role": "function", "name": name, "content": content})]


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(dice.some(dice.name, least=1, most=3))
    body: Body = {"tools": [_tool(dice, name) for name in names]}
    if dice.maybe(4):
        named = {"type": "function", "function": {"name": next(iter(names))}}
        body["tool_choice"] = dice.pick("auto", "none", "required", named)
    return body | dice.subset(parallel_tool_calls=lambda: dice.maybe(5))


def _tool(dice: Dice, name: str) -> Body:
    function: Body = {"name": name}
    function |= dice.subset(
        description=dice.text,
        parameters=lambda: dict(SCHEMA),
        strict=lambda: dice.pick(True, False, None),
    )
    return dice.dress({"type": "function", "function": dice.dress(function)})


def _controls(dice: Dice) -> Body:
    body = dice.subset(
        temperature=lambda: dice.pick(0, 0.5, 2, None),
        top_p=lambda: dice.pick(1, 0.1, None),
        max_completion_tokens=lambda: dice.pick(64, None),
        stop=lambda: dice.pick("END", ["a", "b"], None),
        reasoning_effort=lambda: dice.pick("low", "high", None),
        metadata=lambda: dice.pick({}, {"k": "v"}, None),
        response_format=lambda: _format(dice),
        user=lambda: "u-1",
        n=lambda: 2,
        seed=lambda: 7,
    )
    if dice.maybe(2):
        body |= {"stream": True, **dice.subset(stream_options=lambda: {"include_usage": True})}
    return body


def _format(dice: Dice) -> Body:
    json_schema = dice.dress({"name": "out", "schema": dict(SCHEMA), "strict": True})
    return dice.pick(
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": json_schema},
    )


def _choice(dice: Dice) -> Body:
    message: Body = {"role": "assistant", "content": dice.pick(dice.text(), None), "refusal": None}
    finish = "stop"
    if dice.maybe(4):
        message["tool_calls"] = dice.some(lambda: _call(dice), least=1, most=3)
        finish = "tool_calls"
    elif dice.maybe(2):
        message["refusal"] = dice.text()
    if dice.maybe(2):
        citation = {"start_index": 0, "end_index": 1, "title": "T", "url": "https://example.com"}
        message["annotations"] = [
            dice.dress({"type": "url_citation", "url_citation": dice.dress(citation)})
        ]
    choice = {"index": 0, "message": dice.dress(message), "logprobs": None, "finish_reason": finish}
    return dice.dress(choice)


def _usage(dice: Dice) -> Body:
    usage: Body = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    usage |= dice.subset(
        prompt_tokens_details=lambda: dice.dress({"cached_tokens": 1}),
        completion_tokens_details=lambda: dice.dress({"reasoning_tokens": 2}),
    )
    return dice.dress(usage)
