"""Bodies of Gemini Interactions: steps, contents, or a string as input."""

from __future__ import annotations

from .pieces import MP4, PDF, SCHEMA, WAV, Body, Dice, results_for, standard

_SEALED = standard(b"\xfb\xffsealed\xfe")


def request(dice: Dice) -> Body:
    """A request: an input, then tools and settings."""
    body: Body = {"model": "gemini-3.5-flash", "input": _input(dice), **_tools(dice)}
    body |= dice.subset(
        system_instruction=dice.text,
        generation_config=lambda: _config(dice),
        response_format=lambda: _format(dice),
        stream=lambda: dice.maybe(5),
        store=lambda: False,
        service_tier=lambda: "standard",
        labels=lambda: {"team": "a"},
    )
    return dice.dress(body)


def _input(dice: Dice) -> str | list[Body] | Body:
    if dice.maybe(1):
        return dice.text() or "x"
    if dice.maybe(1):
        return dice.some(lambda: _content(dice), 1, 3)
    if dice.maybe(1):
        return _content(dice)
    steps = [_user(dice)] if dice.orderly else []
    for turn in dice.some(lambda: _turn(dice), 1, 4):
        steps += turn
    return [*steps, _user(dice)] if dice.orderly else steps


def response(dice: Dice) -> Body:
    """A whole response."""
    steps: list[Body] = []
    for made in dice.some(lambda: _said(dice, shows=True), 1, 3):
        steps += made
    calls = dice.some(lambda: _call(dice), 0, 2)
    status = "requires_action" if calls else dice.pick("completed", "incomplete", "failed")
    body: Body = {
        "id": f"v1_{dice.next()}",
        "status": status,
        "object": "interaction",
        "model": "gemini-3.5-flash",
        "steps": steps + calls,
    }
    body |= dice.subset(
        created=lambda: "2026-11-15T10:00:00Z",
        updated=lambda: "2026-11-15T10:00:01Z",
        usage=lambda: dice.dress(
            {"total_input_tokens": 3, "total_output_tokens": 4, "total_tokens": 7}
        ),
        service_tier=lambda: "standard",
    )
    return dice.dress(body)


def _turn(dice: Dice) -> list[Body]:
    return dice.pick(_exchange, _exchange, _tool_exchange, _hosted_exchange)(dice)


def _user(dice: Dice) -> Body:
    contents = dice.some(lambda: _content(dice), 1, 3)
    return dice.dress({"type": "user_input", "content": contents})


def _exchange(dice: Dice) -> list[Body]:
    return [_user(dice), *_said(dice)]


def _said(dice: Dice, *, shows: bool = False) -> list[Body]:
    steps = [_thought(dice)] if dice.maybe(3) else []
    contents = dice.some(lambda: _spoken(dice) if shows else _text(dice), 1, 2)
    return [*steps, dice.dress({"type": "model_output", "content": contents})]


def _thought(dice: Dice) -> Body:
    step: Body = {"type": "thought"}
    if dice.maybe(7):
        step["signature"] = _SEALED
    if dice.maybe(5) or "signature" not in step:
        step["summary"] = [_text(dice)]
    return dice.dress(step)


def _spoken(dice: Dice) -> Body:
    return _text(dice) if dice.maybe(8) else _image(dice)


def _text(dice: Dice) -> Body:
    return dice.dress({"type": "text", "text": dice.text()})


def _image(dice: Dice) -> Body:
    media_type, data = dice.image()
    image: Body = {"type": "image", "data": standard(data), "mime_type": media_type}
    return dice.dress(image | dice.subset(resolution=lambda: "low"))


def _content(dice: Dice) -> Body:
    if dice.extras and dice.maybe(1):
        return dice.unknown()
    if dice.maybe(6):
        return _text(dice)
    inline = (("audio", "audio/wav", WAV), ("video", "video/mp4", MP4))
    kind, media_type, data = dice.pick(("document", "application/pdf", PDF), *inline)
    located = {"type": "image", "uri": "https://example.com/a.png", "mime_type": "image/png"}
    given = {"type": kind, "data": standard(data), "mime_type": media_type}
    return dice.pick(_image(dice), dice.dress(given), dice.dress(located))


def _call(dice: Dice) -> Body:
    step: Body = {
        "type": "function_call",
        "id": dice.identifier("call_") or "call_x",
        "name": dice.name(),
        "arguments": dice.object(),
    }
    return dice.dress(step | dice.subset(signature=lambda: _SEALED))


def _tool_exchange(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), 1, 3)
    names = {step["id"]: step["name"] for step in calls}
    results = [_result(dice, one, names.get(one)) for one in results_for(dice, [*names])]
    return [_user(dice), *calls, *results]


def _result(dice: Dice, identifier: str, name: str | None) -> Body:
    answers = (dice.text, dice.object, lambda: [_text(dice), _image(dice)])
    step: Body = {
        "type": "function_result",
        "call_id": identifier,
        "result": dice.pick(*answers)(),
    }
    if name is not None and dice.maybe(7):
        step["name"] = name
    return dice.dress(step | dice.subset(is_error=lambda: dice.maybe(5)))


def _hosted_exchange(dice: Dice) -> list[Body]:
    identifier = f"s{dice.next()}"
    search: Body = {
        "type": "google_search_call",
        "id": identifier,
        "arguments": {"queries": [dice.text()]},
    }
    found: Body = {
        "type": "google_search_result",
        "call_id": identifier,
        "result": [{"search_suggestions": dice.text()}],
        "signature": _SEALED,
    }
    return [_user(dice), search, found, *_said(dice)]


def _tools(dice: Dice) -> Body:
    if not dice.maybe(4):
        return {}
    names = dict.fromkeys(dice.some(dice.name, 1, 3))
    tools: list[Body] = [_tool(dice, name) for name in names]
    if dice.maybe(3):
        tools.append(dice.pick({"type": "google_search"}, {"type": "code_execution"}))
    return {"tools": tools}


def _tool(dice: Dice, name: str) -> Body:
    tool: Body = {"type": "function", "name": name}
    tool |= dice.subset(description=dice.text, parameters=lambda: dict(SCHEMA))
    return dice.dress(tool)


def _config(dice: Dice) -> Body:
    config = dice.subset(
        temperature=lambda: dice.pick(0, 0.5),
        top_p=lambda: 0.9,
        max_output_tokens=lambda: 64,
        seed=lambda: 7,
        stop_sequences=lambda: ["END"],
        thinking_level=lambda: dice.pick("low", "high"),
        thinking_summaries=lambda: dice.pick("auto", "none"),
        tool_choice=lambda: dice.pick("auto", "any", "none", "validated"),
    )
    return dice.dress(config)


def _format(dice: Dice) -> Body:
    shape: Body = {"type": "text", "mime_type": "application/json"}
    return dice.dress(shape | dice.subset(schema=lambda: dict(SCHEMA)))
