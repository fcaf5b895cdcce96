"""Bodies of OpenAI Responses."""

from __future__ import annotations

from typing import Any

from .pieces import PDF, PNG, SCHEMA, Body, Dice, results_for, standard

_SEALED = "Z0FBQUFBQi1lbmNyeXB0ZWQ="


def request(dice: Dice) -> Body:
    """A request: input as text or items, then tools and controls."""
    body: Body = {"model": "gpt-5.5", "input": dice.text() or "x"}
    if dice.maybe(8):
        body["input"] = [item for turn in dice.some(lambda: _turn(dice), 2, 6) for item in turn]
    body |= dice.subset(instructions=lambda: dice.pick(dice.text(), None))
    return dice.dress({**body, **_tools(dice), **_controls(dice)})


def response(dice: Dice) -> Body:
    """A whole response."""
    output = [item for turn in dice.some(lambda: _spoken(dice), 0, 3) for item in turn]
    body: Body = {
        "id": f"resp_{dice.next()}",
        "object": "response",
        "created_at": 1763164800,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5.5",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        **dice.subset(usage=lambda: _usage(dice)),
    }
    if dice.maybe(2):
        body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return dice.dress(body)


def _turn(dice: Dice) -> list[Body]:
    if dice.extras and dice.maybe(1):
        return [dice.unknown()]
    kinds = (_user, _spoken, _supervisor, _easy_assistant, _answered_calls, _spoken, _hosted)
    turn = dice.pick(*kinds)(dice)
    return _answered(dice, turn) if dice.orderly else turn


def _user(dice: Dice) -> list[Body]:
    message: Body = {"role": "user", "content": dice.text()}
    if dice.maybe(4):
        message["content"] = dice.some(lambda: _part(dice), 1 if dice.orderly else 0, 3)
        message |= dice.subset(status=lambda: "completed")
    if "status" in message or dice.maybe(3):
        message["type"] = "message"
    return [dice.dress(message)]


def _part(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return dice.unknown()
    part = dice.pick(_text, _image, _file)(dice)
    if not dice.orderly and dice.maybe(1):
        part["prompt_cache_breakpoint"] = {"mode": "explicit"}
    return part


def _text(dice: Dice) -> Body:
    return dice.dress({"type": "input_text", "text": dice.text()})


def _image(dice: Dice) -> Body:
    part: Body = {"type": "input_image", "detail": dice.pick("auto", "low", "high")}
    part |= dice.pick(
        {"image_url": "https://example.com/a.png"},
        {"image_url": dice.data_url(*dice.image()), "file_id": None},
        {"file_id": "file-1", "image_url": None},
    )
    return dice.dress(part)


def _file(dice: Dice) -> Body:
    source: Body = dice.pick(
        {"file_id": "file-1"},
        {"file_url": "https://example.com/a.pdf"},
        {"file_data": standard(PDF)},
        {"file_data": "data:application/pdf;base64," + standard(PDF), "filename": "a.pdf"},
    )
    return dice.dress({"type": "input_file", **source})


def _supervisor(dice: Dice) -> list[Body]:
    content: Any = dice.text() if dice.maybe(6) else dice.some(lambda: _text(dice), 1, 2)
    return [dice.dress({"role": dice.pick("system", "developer"), "content": content})]


def _easy_assistant(dice: Dice) -> list[Body]:
    message: Body = {"role": "assistant", "content": dice.text()}
    message |= dice.subset(phase=lambda: dice.pick("commentary", "final_answer", None))
    return [dice.dress(message)]


def _message(dice: Dice) -> Body:
    content = dice.some(lambda: _said(dice), 1, 2)
    return dice.dress(
        {
            "type": "message",
            "id": f"msg_{dice.next()}",
            "role": "assistant",
            "status": "completed",
            "content": content,
            **dice.subset(phase=lambda: dice.pick("final_answer", None)),
        }
    )


def _said(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return dice.unknown()
    if dice.maybe(2):
        return dice.dress({"type": "refusal", "refusal": dice.text()})
    annotations = dice.some(lambda: _annotation(dice), 0, 1)
    return dice.dress({"type": "output_text", "text": dice.text(), "annotations": annotations})


def _annotation(dice: Dice) -> Body:
    url: Body = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "T"}
    url["url"] = "https://example.com"
    file: Body = {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 0}
    return dice.dress(dice.pick(url, file))


def _reasoning(dice: Dice) -> Body:
    summary = dice.some(lambda: dice.dress({"type": "summary_text", "text": dice.text()}), 0, 2)
    item: Body = {"type": "reasoning", "id": f"rs_{dice.next()}", "summary": summary}
    item |= dice.subset(encrypted_content=lambda: dice.pick(_SEALED, None))
    if dice.maybe(2):
        item["content"] = [dice.dress({"type": "reasoning_text", "text": dice.text()})]
    return dice.dress(item)


def _spoken(dice: Dice) -> list[Body]:
    """What a model says: reasoning before a message or calls."""
    items = [_reasoning(dice)] if dice.maybe(5) else []
    if dice.maybe(4):
        return [*items, *dice.some(lambda: _call(dice), 1, 2)]
    return [*items, _message(dice)]


def _call(dice: Dice) -> Body:
    call: Body = {"call_id": dice.identifier("call_"), "name": dice.name()}
    if dice.maybe(2):
        call |= {"type": "custom_tool_call", "input": dice.text()}
    else:
        call |= {"type": "function_call", "arguments": dice.argument_text()}
        call |= dice.subset(status=lambda: "completed", id=lambda: f"fc_{dice.next()}")
    return dice.dress(call | dice.subset(namespace=lambda: "ns"))


def _answered_calls(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), 1, 3)
    if dice.orderly:
        return calls
    kinds = {call["call_id"]: call["type"] for call in calls}
    answers = results_for(dice, list(kinds))
    outputs = [_output(dice, kinds.get(key, "function_call"), key) for key in answers]
    if outputs and dice.maybe(2):
        outputs[-1:-1] = _user(dice)
    return [*calls, *outputs]


def _answered(dice: Dice, turn: list[Body]) -> list[Body]:
    """The turn with one output for each of its calls."""
    calls = {item["call_id"]: item["type"] for item in turn if "call_id" in item}
    outputs = [_output(dice, calls[key], key) for key in results_for(dice, list(calls))]
    return [*turn, *outputs]


def _output(dice: Dice, kind: str, call_id: str) -> Body:
    output: Any = dice.text()
    if dice.maybe(3):
        output = dice.some(lambda: dice.pick(_text, _image, _file)(dice), 1, 2)
    return dice.dress({"type": f"{kind}_output", "call_id": call_id, "output": output})


def _hosted(dice: Dice) -> list[Body]:
    number = dice.next()
    search = {"type": "search", "query": dice.text()}
    item: Body = dice.pick(
        {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": search},
        {"type": "image_generation_call", "id": f"ig_{number}", "status": "completed"},
        {"type": "mcp_call", "id": f"mcp_{number}", "name": "ask", "arguments": "{}"},
        {"type": "compaction", "encrypted_content": _SEALED},
    )
    if item["type"] == "image_generation_call":
        item["result"] = standard(PNG)
    if item["type"] == "mcp_call":
        item |= {"server_label": "wiki", "output": dice.text()}
    return [dice.dress(dict(item))]


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(dice.some(dice.name, 1, 3))
    tools = [_tool(dice, name) for name in names]
    if dice.maybe(2):
        tools.append(dice.dress({"type": "web_search"}))
    body: Body = {"tools": tools}
    if dice.maybe(4):
        named = {"type": "function", "name": next(iter(names))}
        body["tool_choice"] = dice.pick("auto", "none", "required", named)
    return body | dice.subset(parallel_tool_calls=lambda: dice.maybe(5))


def _tool(dice: Dice, name: str) -> Body:
    tool: Body = {"type": "function", "name": name, "parameters": dict(SCHEMA)}
    tool["strict"] = dice.pick(True, False, None)
    return dice.dress(tool | dice.subset(description=lambda: dice.pick(dice.text(), None)))


def _controls(dice: Dice) -> Body:
    schema = {"type": "json_schema", "name": "out", "schema": dict(SCHEMA), "strict": True}
    return dice.subset(
        temperature=lambda: dice.pick(0, 0.5, 2, None),
        top_p=lambda: dice.pick(1, 0.1, None),
        max_output_tokens=lambda: dice.pick(64, None),
        metadata=lambda: dice.pick({}, {"k": "v"}, None),
        reasoning=lambda: dice.pick({"effort": "low"}, {"summary": "auto", "effort": None}, None),
        text=lambda: dice.dress({"format": dice.dress(dice.pick(schema, {"type": "text"}))}),
        store=lambda: dice.pick(False, None),
        include=lambda: dice.pick(["reasoning.encrypted_content"], []),
        stream=lambda: True,
        truncation=lambda: "auto",
    )


def _usage(dice: Dice) -> Body:
    usage: Body = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    usage["input_tokens_details"] = dice.dress({"cached_tokens": 1, "cache_write_tokens": 0})
    usage["output_tokens_details"] = dice.dress({"reasoning_tokens": 2})
    return dice.dress(usage)
