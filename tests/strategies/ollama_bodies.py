"""Bodies of Ollama's chat and of its generate."""

from __future__ import annotations

from .pieces import SCHEMA, Body, Dice, standard


def request(dice: Dice) -> Body:
    """A request: turns, then tools and settings."""
    messages = dice.some(lambda: _said(dice, "system"), most=1)
    for turn in dice.some(lambda: _turn(dice), least=2, most=5):
        messages += turn
    body: Body = {"model": "llama3.2", "messages": messages, **_tools(dice), **_settings(dice)}
    return dice.dress(body)


def response(dice: Dice) -> Body:
    """A whole response."""
    message: Body = {"role": "assistant", "content": dice.pick(dice.text(), "")}
    if dice.maybe(4):
        message["tool_calls"] = dice.some(lambda: _call(dice), least=1, most=3)
    if dice.maybe(4):
        message["thinking"] = dice.text()
    body: Body = {
        "model": "llama3.2",
        "created_at": "2026-11-15T10:00:00.123456789Z",
        "message": dice.dress(message),
        "done": True,
        "done_reason": dice.pick("stop", "length", "load"),
    }
    body |= dice.subset(
        total_duration=lambda: 12,
        prompt_eval_duration=lambda: 3,
        eval_duration=lambda: 4,
        load_duration=lambda: 5,
    )
    if dice.maybe(7):
        body |= {"prompt_eval_count": 3, "eval_count": 4}
    return dice.dress(body)


def question(dice: Dice) -> Body:
    """A request of ``/api/generate``."""
    body: Body = {"model": "llama3.2", "prompt": dice.text(), **_settings(dice)}
    body |= dice.subset(
        system=dice.text,
        suffix=dice.text,
        template=lambda: "{{ .Prompt }}",
        raw=lambda: dice.maybe(5),
        images=lambda: dice.some(lambda: standard(dice.image()[1]), least=1, most=2),
    )
    if not dice.orderly and dice.maybe(1):
        del body["prompt"]
    return dice.dress(body)


def answer(dice: Dice) -> Body:
    """A whole answer of ``/api/generate``."""
    body = response(dice)
    del body["message"]
    body["response"] = dice.pick(dice.text(), "")
    return body | dice.subset(thinking=dice.text, context=lambda: [1, 2, 3])


def _said(dice: Dice, role: str) -> Body:
    return dice.dress({"role": role, "content": dice.text()})


def _turn(dice: Dice) -> list[Body]:
    return dice.pick(_user, _user, _assistant, _calls, _calls, _late_system)(dice)


def _late_system(dice: Dice) -> list[Body]:
    return [_said(dice, "system")]


def _user(dice: Dice) -> list[Body]:
    message = _said(dice, "user")
    if dice.maybe(4):
        message["images"] = dice.some(lambda: standard(dice.image()[1]), least=1, most=2)
        if not dice.orderly and dice.maybe(4):
            del message["content"]
    return [message]


def _assistant(dice: Dice) -> list[Body]:
    message = _said(dice, "assistant")
    return [message | dice.subset(thinking=dice.text)]


def _calls(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), least=1, most=3)
    message: Body = {"role": "assistant", "tool_calls": calls}
    if dice.maybe(7):
        message["content"] = dice.pick("", dice.text())
    results = [_result(dice, call) for call in calls]
    if not dice.orderly and dice.maybe(2):
        results = results[1:]
    return [dice.dress(message), *results]


def _call(dice: Dice) -> Body:
    function: Body = {"name": dice.name(), "arguments": dice.object()}
    call: Body = {"function": dice.dress(function | dice.subset(index=lambda: 0))}
    if dice.maybe(4):
        call["id"] = f"call_{dice.next()}"
    return dice.dress(call)


def _result(dice: Dice, call: Body) -> Body:
    message: Body = {"role": "tool", "content": dice.text()}
    if dice.maybe(7):
        message["tool_name"] = call["function"]["name"]
    if "id" in call and (dice.orderly or dice.maybe(5)):
        message["tool_call_id"] = call["id"]
    return dice.dress(message)


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {} if dice.maybe(5) or dice.orderly else {"tools": []}
    names = dict.fromkeys(dice.some(dice.name, least=1, most=3))
    return {"tools": [_tool(dice, name) for name in names]}


def _tool(dice: Dice, name: str) -> Body:
    function: Body = {"name": name}
    function |= dice.subset(description=dice.text, parameters=lambda: dict(SCHEMA))
    return dice.dress({"type": "function", "function": dice.dress(function)})


def _settings(dice: Dice) -> Body:
    options = dice.subset(
        temperature=lambda: dice.pick(0, 0.5),
        top_p=lambda: 0.9,
        top_k=lambda: 40,
        num_predict=lambda: 64,
        seed=lambda: 7,
        stop=lambda: ["END"],
        num_ctx=lambda: 4096,
    )
    body = dice.subset(
        stream=lambda: dice.maybe(5),
        format=lambda: dice.pick("json", dict(SCHEMA), ""),
        think=lambda: dice.pick(True, False, "low", "high"),
        keep_alive=lambda: dice.pick("5m", 0, None),
    )
    return body | ({"options": dice.dress(options)} if options or dice.maybe(2) else {})
