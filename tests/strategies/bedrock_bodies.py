"""Bodies of Bedrock Converse."""

from __future__ import annotations

from .pieces import MP4, PDF, SCHEMA, WAV, Body, Dice, results_for, standard

_SEALED = "EqQBCkYIBxgCKkBsealed"


def request(dice: Dice) -> Body:
    """A request: system blocks, turns that begin with the user when orderly, tools and settings."""
    messages = [_user(dice)] if dice.orderly else []
    for turn in dice.some(lambda: _turn(dice), 1, 4):
        messages += turn
    body: Body = {"messages": messages}
    body |= dice.subset(system=lambda: _marked(dice, dice.some(lambda: _text(dice), 1, 2)))
    has_tools = any("toolUse" in block for m in messages for block in m["content"])
    return dice.dress({**body, **_tools(dice, needed=has_tools), **_settings(dice)})


def response(dice: Dice) -> Body:
    """A whole response."""
    content = dice.some(lambda: _said(dice), 0, 3)
    has_calls = any("toolUse" in block for block in content)
    usage: Body = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
    usage |= dice.subset(cacheReadInputTokens=lambda: 1, cacheWriteInputTokens=lambda: 0)
    body: Body = {
        "output": dice.dress({"message": dice.dress({"role": "assistant", "content": content})}),
        "stopReason": "tool_use" if has_calls else dice.pick("end_turn", "guardrail_intervened"),
        "usage": dice.dress(usage),
        "metrics": dice.dress({"latencyMs": 12}),
    }
    body |= dice.subset(
        performanceConfig=lambda: {"latency": "standard"},
        additionalModelResponseFields=lambda: {"a": 1},
    )
    return dice.dress(body)


def _marked(dice: Dice, blocks: list[Body]) -> list[Body]:
    """Blocks with a cache point among them."""
    if dice.orderly or not dice.maybe(2):
        return blocks
    point: Body = dict(
        dice.pick(
            {"type": "default"}, {"type": "default", "ttl": "1h"}, {"type": "default", "ttl": "5m"}
        )
    )
    at = dice.pick(len(blocks), 0)
    return [*blocks[:at], dice.dress({"cachePoint": dice.dress(point)}), *blocks[at:]]


def _text(dice: Dice) -> Body:
    return dice.dress({"text": dice.text()})


def _turn(dice: Dice) -> list[Body]:
    return dice.pick(_plain, _plain, _tool_exchange, _tool_exchange, _late_system)(dice)


def _plain(dice: Dice) -> list[Body]:
    if dice.orderly or dice.maybe(6):
        return [_assistant(dice), _user(dice)]
    return [dice.pick(_assistant, _user)(dice)]


def _late_system(dice: Dice) -> list[Body]:
    if dice.orderly:
        return [_assistant(dice), _user(dice)]
    return [dice.dress({"role": "system", "content": [_text(dice)]})]


def _message(dice: Dice, role: str, content: list[Body]) -> Body:
    return dice.dress({"role": role, "content": _marked(dice, content)})


def _user(dice: Dice) -> Body:
    content = dice.some(lambda: _shown(dice), 0, 3)
    if dice.orderly or dice.maybe(6):
        content.insert(0, _text(dice))
    return _message(dice, "user", content)


def _unknown(dice: Dice) -> Body:
    drawn = dice.unknown()
    return {drawn.pop("type"): drawn}


def _shown(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return _unknown(dice)
    return dice.pick(_text, _image, _document, _search_result, _medium, _guarded)(dice)


def _located(dice: Dice, data: bytes) -> Body:
    place: Body = {"s3Location": dice.dress({"uri": "s3://bucket-1/a.bin"})}
    return dice.dress(dict(dice.pick({"bytes": standard(data)}, place)))


def _image(dice: Dice) -> Body:
    mime_type, data = dice.image()
    form = mime_type.partition("/")[2]
    return dice.dress({"image": dice.dress({"format": form, "source": _located(dice, data)})})


def _medium(dice: Dice) -> Body:
    kind, form, data = dice.pick(
        ("video", "mp4", MP4),
        ("video", "three_gp", MP4),
        ("audio", "wav", WAV),
        ("audio", "mpga", b"ID3\x03\x00"),
    )
    return dice.dress({kind: dice.dress({"format": form, "source": _located(dice, data)})})


def _document(dice: Dice) -> Body:
    form, source = dice.pick(
        ("pdf", _located(dice, PDF)),
        ("txt", {"bytes": standard((dice.text() or "x").encode())}),
        ("txt", {"text": dice.text() or "x"}),
        ("md", {"content": [{"text": dice.text() or "x"}]}),
    )
    document: Body = {"format": form, "name": f"doc {dice.next()}", "source": dict(source)}
    document |= dice.subset(
        context=lambda: dice.text() or "C", citations=lambda: dice.dress({"enabled": dice.maybe(5)})
    )
    return dice.dress({"document": dice.dress(document)})


def _search_result(dice: Dice) -> Body:
    content = [{"text": dice.text()} for _ in range(1 + dice.maybe(5))]
    result: Body = {"source": "kb", "title": f"T{dice.next()}", "content": content}
    return dice.dress({"searchResult": dice.dress(result)})


def _guarded(dice: Dice) -> Body:
    held: Body = {"text": dice.text()} | dice.subset(qualifiers=lambda: ["query"])
    return dice.dress({"guardContent": {"text": dice.dress(held)}})


def _assistant(dice: Dice) -> Body:
    content = dice.some(lambda: _uncalled(dice), 0, 3)
    if dice.orderly or dice.maybe(6):
        content.append(_text(dice))
    return _message(dice, "assistant", content)


def _uncalled(dice: Dice) -> Body:
    block = _said(dice)
    return _text(dice) if dice.orderly and "toolUse" in block else block


def _said(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return _unknown(dice)
    if dice.maybe(3):
        return _thought(dice)
    if dice.maybe(2):
        return _call(dice)
    return _cited(dice) if dice.maybe(2) else _text(dice)


def _thought(dice: Dice) -> Body:
    if dice.maybe(2):
        return dice.dress(
            {"reasoningContent": {"redactedContent": _SEALED + "A" * (-len(_SEALED) % 4)}}
        )
    text: Body = {"text": dice.pick(dice.text(), "")} | dice.subset(signature=lambda: _SEALED)
    return dice.dress({"reasoningContent": dice.dress({"reasoningText": dice.dress(text)})})


def _cited(dice: Dice) -> Body:
    location = {"documentChar": {"documentIndex": 0, "start": 0, "end": 1}}
    place: Body = {
        "title": "t",
        "location": dict(dice.pick(location, {"web": {"url": "https://e.com"}})),
    }
    content = [{"text": dice.text()} for _ in range(1 + dice.maybe(2))]
    block: Body = {"content": content, "citations": [dice.dress(place)] if dice.maybe(8) else []}
    return dice.dress({"citationsContent": dice.dress(block)})


def _call(dice: Dice) -> Body:
    held: Body = {"toolUseId": dice.identifier("tooluse_"), "name": dice.name()}
    held["input"] = dice.object()
    if not dice.orderly and dice.maybe(1):
        held["type"] = "server_tool_use"
    return dice.dress({"toolUse": dice.dress(held)})


def _tool_exchange(dice: Dice) -> list[Body]:
    said = dice.some(lambda: _uncalled(dice), 0, 2)
    calls = dice.some(lambda: _call(dice), 1, 3)
    identifiers = list(dict.fromkeys(call["toolUse"]["toolUseId"] for call in calls))
    content = [_result(dice, identifier) for identifier in results_for(dice, identifiers)]
    if dice.maybe(3):
        content.append(_text(dice))
    asked = _message(dice, "assistant", [*said, *calls])
    return [asked, _message(dice, "user", content)]


def _result(dice: Dice, identifier: str) -> Body:
    content = dice.some(lambda: _part(dice), 1 if dice.orderly else 0, 2)
    if dice.orderly and any("json" in part for part in content):
        # Words beside JSON cannot be told from it once both are one text.
        content = [part for part in content if "json" in part][:1]
    held: Body = {"toolUseId": identifier, "content": content}
    held |= dice.subset(status=lambda: dice.pick("success", "error"))
    return dice.dress({"toolResult": dice.dress(held)})


def _part(dice: Dice) -> Body:
    if dice.extras and dice.maybe(2):
        return _unknown(dice)
    return dice.pick(_text, _json, _image, _document, _text)(dice)


def _json(dice: Dice) -> Body:
    return dice.dress({"json": dice.object()})


def _tools(dice: Dice, *, needed: bool) -> Body:
    if not dice.maybe(5) and not (needed and dice.orderly):
        return {}
    names = dict.fromkeys(dice.some(dice.name, 1, 3))
    config: Body = {"tools": _marked(dice, [_tool(dice, name) for name in names])}
    if dice.maybe(4):
        choice: Body = dice.pick({"auto": {}}, {"any": {}}, {"tool": {"name": next(iter(names))}})
        config["toolChoice"] = dice.dress(dict(choice))
    return {"toolConfig": dice.dress(config)}


def _tool(dice: Dice, name: str) -> Body:
    spec: Body = {"name": name, "inputSchema": dice.dress({"json": dict(SCHEMA)})}
    spec |= dice.subset(description=lambda: dice.text() or "d", strict=lambda: dice.maybe(5))
    return dice.dress({"toolSpec": dice.dress(spec)})


def _settings(dice: Dice) -> Body:
    inference = dice.subset(
        maxTokens=lambda: 64,
        temperature=lambda: dice.pick(0, 0.5, 1),
        topP=lambda: 0.9,
        stopSequences=lambda: ["END"],
    )
    schema: Body = {"schema": '{"type": "object", "additionalProperties": false}', "name": "out"}
    form = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    body = dice.subset(
        requestMetadata=lambda: {"team": "a"},
        performanceConfig=lambda: {"latency": "optimized"},
        promptVariables=lambda: {"x": {"text": "y"}},
        outputConfig=lambda: dice.dress(dict(dice.pick({"effort": "low"}, {"textFormat": form}))),
        additionalModelRequestFields=lambda: dice.dress({"top_k": 40}),
        guardrailConfig=lambda: {"guardrailIdentifier": "g1", "guardrailVersion": "1"},
    )
    return body | ({"inferenceConfig": dice.dress(inference)} if inference or dice.maybe(2) else {})
