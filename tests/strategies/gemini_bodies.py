"""Bodies of Gemini generateContent, with keys in both spellings."""

from __future__ import annotations

import re
from typing import Any

from .pieces import MP4, PDF, SCHEMA, WAV, Body, Dice

_SEALED = b"\xfb\xffsealed\xfe"
_FREE = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "partMetadata"}
)


def request(dice: Dice) -> Body:
    """A request: contents, then tools and configuration, respelled now and then."""
    contents = [_user(dice)] if dice.orderly else []
    for turn in dice.some(lambda: _turn(dice), 1, 4):
        contents += turn
    if dice.orderly:
        contents.append(_user(dice))
    body: Body = {"contents": contents, **_tools(dice)}
    body |= dice.subset(
        systemInstruction=lambda: _system(dice),
        generationConfig=lambda: _config(dice),
        safetySettings=lambda: dice.pick([], None),
        cachedContent=lambda: "cachedContents/a",
    )
    return dice.dress(_spelled(dice, body))


def response(dice: Dice) -> Body:
    """A whole response with candidates."""
    candidates = dice.some(lambda: _candidate(dice), 1, 2)
    for index, candidate in enumerate(candidates):
        candidate["index"] = index
    body: Body = {"candidates": candidates, "modelVersion": "gemini-2.5-pro"}
    body |= dice.subset(
        responseId=lambda: f"r{dice.next()}",
        usageMetadata=lambda: dice.dress({"promptTokenCount": 3, "totalTokenCount": 7}),
    )
    return dice.dress(body)


def _spelled(dice: Dice, body: Body) -> Body:
    """The body in camelCase, in snake_case, or in a mixture as the official SDK sends it."""
    style = dice.pick("camel", "camel", "snake", "mixed")
    if style == "camel":
        return body
    respelled: Body = _respell(body, depth=0, above=3 if style == "mixed" else 0)
    return respelled


def _respell(value: Any, depth: int, above: int) -> Any:
    if isinstance(value, list):
        return [_respell(item, depth, above) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        (_snake(key) if depth >= above else key): (
            item if key in _FREE else _respell(item, depth + 1, above)
        )
        for key, item in value.items()
    }


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), key)


def _turn(dice: Dice) -> list[Body]:
    kinds = (_plain_exchange, _plain_exchange, _tool_exchange, _hosted_exchange)
    return dice.pick(*kinds)(dice)


def _content(dice: Dice, role: str, parts: list[Body]) -> Body:
    content: Body = {"role": role, "parts": parts}
    if role == "user" and dice.maybe(1):
        del content["role"]
    return dice.dress(content)


def _user(dice: Dice) -> Body:
    least = 1 if dice.orderly else 0
    return _content(dice, "user", dice.some(lambda: _shown(dice), least, 3))


def _shown(dice: Dice) -> Body:
    if dice.extras and dice.maybe(1):
        return {dice.pick("hologram", "telepathy"): dice.object()}
    return dice.pick(_text, _text, _media, _file)(dice)


def _text(dice: Dice) -> Body:
    part: Body = {"text": dice.text()}
    if not dice.orderly:
        part |= dice.subset(thought=lambda: None, inlineData=lambda: None)
    return dice.dress(part)


def _media(dice: Dice) -> Body:
    others = (
        ("audio/wav", WAV),
        ("video/mp4", MP4),
        ("application/pdf", PDF),
        ("text/csv", b"a,b"),
    )
    media_type, data = dice.image() if dice.maybe(4) else dice.pick(*others)
    blob: Body = {"mimeType": media_type, "data": dice.either_alphabet(data)}
    blob |= dice.subset(displayName=lambda: "a")
    part: Body = {"inlineData": dice.dress(blob)}
    if media_type == "video/mp4":
        part["videoMetadata"] = {"startOffset": "1s", "fps": 2.0}
    return dice.dress(part)


def _file(dice: Dice) -> Body:
    file: Body = {"fileUri": "gs://bucket/a.pdf"}
    file |= dice.subset(mimeType=lambda: "application/pdf")
    return dice.dress({"fileData": dice.dress(file)})


def _said(dice: Dice) -> Body:
    if dice.extras and dice.maybe(1):
        return {dice.pick("hologram", "telepathy"): dice.object()}
    part: Body = {"text": dice.text()}
    if dice.maybe(3):
        part["thought"] = True
    return dice.dress(part | _signature(dice))


def _signature(dice: Dice) -> Body:
    return {"thoughtSignature": dice.either_alphabet(_SEALED)} if dice.maybe(3) else {}


def _plain_exchange(dice: Dice) -> list[Body]:
    said = dice.some(lambda: _said(dice), 1 if dice.orderly else 0, 3)
    return [_content(dice, "model", said), _user(dice)]


def _call(dice: Dice) -> Body:
    call: Body = {"name": dice.name()}
    if dice.maybe(8):
        call["args"] = dice.object()
    call |= dice.subset(id=lambda: dice.identifier("fc-"))
    return dice.dress({"functionCall": dice.dress(call), **_signature(dice)})


def _tool_exchange(dice: Dice) -> list[Body]:
    calls = dice.some(lambda: _call(dice), 1, 3)
    asked = _content(dice, "model", [*dice.some(lambda: _said(dice), 0, 1), *calls])
    parts = [_answer(dice, call["functionCall"]) for call in calls]
    if not dice.orderly and dice.maybe(3):
        parts = list(reversed(parts))[dice.pick(0, 1) :]
    if not parts or dice.maybe(2):
        parts.append(_text(dice))
    return [asked, dice.dress({"role": "user", "parts": parts})]


def _answer(dice: Dice, call: Body) -> Body:
    shapes: tuple[Body, ...] = (
        {"output": dice.text()},
        {"error": "boom"},
        dice.object(),
        {"output": [1, None]},
        {},
    )
    response: Body = {"name": call["name"], "response": dice.pick(*shapes)}
    if "id" in call:
        response["id"] = call["id"]
    if dice.maybe(2):
        response["parts"] = [_media_in_response(dice)]
    return dice.dress({"functionResponse": dice.dress(response)})


def _media_in_response(dice: Dice) -> Body:
    media_type, data = dice.image()
    blob = dice.dress({"mimeType": media_type, "data": dice.either_alphabet(data)})
    return dice.dress({"inlineData": blob})


def _hosted_exchange(dice: Dice) -> list[Body]:
    code = dice.dress({"language": "PYTHON", "code": dice.text()})
    outcome = dice.dress({"outcome": "OUTCOME_OK", "output": dice.text()})
    parts = [dice.dress({"executableCode": code}), dice.dress({"codeExecutionResult": outcome})]
    return [_content(dice, "model", parts), _user(dice)]


def _system(dice: Dice) -> Body:
    content: Body = {"parts": dice.some(lambda: dice.dress({"text": dice.text()}), 1, 2)}
    return dice.dress(content | dice.subset(role=lambda: "user"))


def _tools(dice: Dice) -> Body:
    if not dice.maybe(5):
        return {}
    names = dict.fromkeys(_legal(dice, name) for name in dice.some(dice.name, 1, 3))
    tool = dice.dress({"functionDeclarations": [_declaration(dice, name) for name in names]})
    body: Body = {"tools": [tool]}
    if dice.maybe(3):
        mode: Body = {"mode": dice.pick("AUTO", "NONE", "ANY")}
        if mode["mode"] == "ANY" and dice.maybe(5):
            mode["allowedFunctionNames"] = [next(iter(names))]
        body["toolConfig"] = dice.dress({"functionCallingConfig": dice.dress(mode)})
    return body


def _legal(dice: Dice, name: str) -> str:
    return name if not dice.orderly or name[0].isalpha() else f"_{name}"


def _declaration(dice: Dice, name: str) -> Body:
    declaration: Body = {"name": name}
    declaration |= dice.subset(description=dice.text)
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    declaration |= dice.pick({}, {"parametersJsonSchema": dict(SCHEMA)}, {"parameters": schema})
    return dice.dress(declaration)


def _config(dice: Dice) -> Body:
    config = dice.subset(
        temperature=lambda: dice.pick(0, 0.5, 2, None),
        topP=lambda: 0.5,
        topK=lambda: 40,
        maxOutputTokens=lambda: 64,
        stopSequences=lambda: dice.pick(["END"], []),
        thinkingConfig=lambda: dice.dress({"thinkingBudget": 128, "includeThoughts": True}),
        seed=lambda: 7,
    )
    if dice.maybe(2):
        config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(SCHEMA)}
    return dice.dress(config)


def _candidate(dice: Dice) -> Body:
    parts = dice.some(lambda: dice.pick(_said, _said, _call)(dice), 0, 3)
    candidate: Body = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}
    if dice.maybe(2):
        rating = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}
        candidate["safetyRatings"] = [dice.dress(rating)]
    return dice.dress(candidate)
