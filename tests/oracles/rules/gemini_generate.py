"""Server rules of Gemini generateContent.

Sources: docstrings of google-genai 3.1.0 and quoted server errors. Keys are read in both
spellings. A turn of function calls comes right after a user turn, and exactly its responses, in
order, come next. Recorded requests that the server took (2025, 2026) bound that: neighbouring turns
of one role count as one turn, and media types are not compared with the bytes.
Rules that rest on neither are listed in `server_rules.UNCONFIRMED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .findings import decode, finding, in_range, names_are_legal, names_are_unique

Body = dict[str, Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_DATA_FIELDS = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_NEEDS_SIGNATURES = re.compile(r"gemini-(?:[3-9]|\d\d)")


def spelled(holder: Body, key: str) -> str:
    """The key as the holder spells it, camelCase if it has neither."""
    snake = re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), key)
    return snake if snake in holder and key not in holder else key


def get(holder: Any, key: str) -> Any:
    """The value of a key in either spelling."""
    return holder.get(spelled(holder, key)) if isinstance(holder, dict) else None


def check(body: Body, model: str | None = None) -> Iterator[str]:
    """The rules that a request body breaks; with a model of Gemini 3 or later, signatures too."""
    contents = _objects(body.get("contents"))
    if not contents:
        yield finding("$.contents", "empty", "at least one content is required")
    for index, content in enumerate(contents):
        yield from _content(content, f"$.contents[{index}]")
    yield from _pairing(contents)
    if contents and contents[-1].get("role") == "model":
        yield finding("$.contents[-1]", "ends-on-model", "history must not end on a model turn")
    if model and _NEEDS_SIGNATURES.search(model):
        yield from _signatures(contents)
    yield from _system(get(body, "systemInstruction"))
    yield from _tools(body)
    yield from _controls(get(body, "generationConfig"))


def _objects(value: Any) -> list[Body]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parts(content: Body, key: str) -> list[Body]:
    return [part for part in _objects(content.get("parts")) if get(part, key) is not None]


def _content(content: Body, path: str) -> Iterator[str]:
    role = content.get("role")
    if role not in (None, "user", "model"):
        yield finding(f"{path}.role", "role", f"{role!r} is neither user nor model")
    parts = _objects(content.get("parts"))
    if not parts:
        yield finding(f"{path}.parts", "empty", "at least one part is required")
    for index, part in enumerate(parts):
        yield from _part(part, f"{path}.parts[{index}]", is_model=role == "model")


def _part(part: Body, path: str, *, is_model: bool) -> Iterator[str]:
    given = [key for key in _DATA_FIELDS if get(part, key) is not None]
    # The SDK sends back a signature that came without a text (recorded 2026).
    is_signature = not given and get(part, "thoughtSignature") is not None
    if len(given) != 1 and not is_signature:
        yield finding(path, "part-union", f"exactly one data field, not {given}")
    if "functionCall" in given and not is_model:
        yield finding(path, "call-role", "a functionCall outside of a model turn")
    if "functionResponse" in given and is_model:
        yield finding(path, "response-role", "a functionResponse inside of a model turn")
    yield from _media(part, path)
    for key in ("functionCall", "functionResponse"):
        if key in given:
            named = [(f"{path}.{key}.name", get(get(part, key), "name"))]
            yield from names_are_legal(named, _NAME)
    yield from _call(get(part, "functionCall"), f"{path}.functionCall")
    response = get(part, "functionResponse")
    if response is not None and not isinstance(get(response, "response"), dict):
        yield finding(f"{path}.functionResponse.response", "response-object", "must be an object")
    for index, inner in enumerate(_objects(get(response, "parts"))):
        yield from _media(inner, f"{path}.functionResponse.parts[{index}]")


def _call(call: Any, path: str) -> Iterator[str]:
    arguments = get(call, "args")
    if arguments is not None and not isinstance(arguments, dict):
        yield finding(f"{path}.args", "input-object", "args must be an object")
    if get(call, "partialArgs") is not None or get(call, "willContinue") is not None:
        yield finding(path, "vertex-only", "partialArgs and willContinue: not on the Developer API")


def _media(part: Body, path: str) -> Iterator[str]:
    blob, file = get(part, "inlineData"), get(part, "fileData")
    if isinstance(blob, dict):
        mime_type = get(blob, "mimeType")
        if not mime_type:
            yield finding(f"{path}.inlineData.mimeType", "media-type", "a media type is required")
        if decode(blob.get("data"), urlsafe=True) is None:
            yield finding(f"{path}.inlineData.data", "base64", "the data is no base64")
    if isinstance(file, dict) and not get(file, "fileUri"):
        yield finding(f"{path}.fileData.fileUri", "file-source", "fileUri is required")


def _pairing(contents: list[Body]) -> Iterator[str]:
    turns = _joined(contents)
    for number, (path, turn) in enumerate(turns):
        calls = _parts(turn, "functionCall") if turn["role"] == "model" else []
        if calls and not number:
            yield finding(path, "call-place", "a call turn must follow a user or response turn")
        if calls:
            following = turns[number + 1][1] if number + 1 < len(turns) else {}
            yield from _answers(calls, _parts(following, "functionResponse"), path)
        responses = _parts(turn, "functionResponse")
        before = turns[number - 1][1] if number else {"role": None}
        if responses and not (before["role"] == "model" and _parts(before, "functionCall")):
            yield finding(path, "result-orphan", "responses without a call turn just before")


def _joined(contents: list[Body]) -> list[tuple[str, Body]]:
    """The turns, neighbours of one role as one, with the path of the first of them."""
    turns: list[tuple[str, Body]] = []
    for index, content in enumerate(contents):
        role = "model" if content.get("role") == "model" else "user"
        if not turns or turns[-1][1]["role"] != role:
            turns.append((f"$.contents[{index}]", {"role": role, "parts": []}))
        turns[-1][1]["parts"] += _objects(content.get("parts"))
    return turns


def _answers(calls: list[Body], responses: list[Body], path: str) -> Iterator[str]:
    if len(calls) != len(responses):
        code = "call-unanswered" if len(calls) > len(responses) else "result-duplicate"
        yield finding(path, code, f"{len(calls)} calls, {len(responses)} responses follow")
        return
    for index, (call_part, response_part) in enumerate(zip(calls, responses, strict=True)):
        call, response = get(call_part, "functionCall"), get(response_part, "functionResponse")
        both_ids = call.get("id") and response.get("id")
        if call.get("name") != response.get("name") or (both_ids and call["id"] != response["id"]):
            yield finding(path, "result-order", f"response {index} does not belong to call {index}")


def _signatures(contents: list[Body]) -> Iterator[str]:
    for index, content in enumerate(contents):
        calls = _parts(content, "functionCall")
        if calls and not get(calls[0], "thoughtSignature"):
            path = f"$.contents[{index}]"
            yield finding(path, "signature-missing", "the first functionCall needs its signature")


def _system(instruction: Any) -> Iterator[str]:
    if not isinstance(instruction, dict):
        return
    for index, part in enumerate(_objects(instruction.get("parts"))):
        if not isinstance(part.get("text"), str):
            yield finding(f"$.systemInstruction.parts[{index}]", "system-text", "text only")


def _declared(body: Body) -> list[tuple[str, Any]]:
    found = []
    for index, tool in enumerate(_objects(body.get("tools"))):
        declarations = _objects(get(tool, "functionDeclarations"))
        for position, declaration in enumerate(declarations):
            path = f"$.tools[{index}].functionDeclarations[{position}]"
            found.append((f"{path}.name", declaration.get("name")))
    return found


def _tools(body: Body) -> Iterator[str]:
    declared = _declared(body)
    yield from names_are_legal(declared, _NAME)
    yield from names_are_unique(declared)
    for tool in _objects(body.get("tools")):
        for declaration in _objects(get(tool, "functionDeclarations")):
            if declaration.get("parameters") and get(declaration, "parametersJsonSchema"):
                yield finding("$.tools", "schema-twice", "parameters xor parametersJsonSchema")
    calling = get(get(body, "toolConfig"), "functionCallingConfig")
    allowed = get(calling, "allowedFunctionNames")
    if not allowed:
        return
    if str(get(calling, "mode")).upper() not in ("ANY", "VALIDATED"):
        yield finding("$.toolConfig", "allowed-mode", "allowedFunctionNames needs ANY or VALIDATED")
    for name in allowed:
        if name not in {declared_name for _, declared_name in declared}:
            yield finding("$.toolConfig", "tool-choice", f"{name!r} is not declared")


def _controls(config: Any) -> Iterator[str]:
    if not isinstance(config, dict):
        return
    path = "$.generationConfig"
    for key, low, high in (("temperature", 0, 2), ("topP", 0, 1), ("candidateCount", 1, 8)):
        yield from in_range({key: get(config, key)}, key, low, high, path)
    stops = get(config, "stopSequences")
    if isinstance(stops, list) and len(stops) > 5:
        yield finding(f"{path}.stopSequences", "stop-limit", "at most 5 sequences")
    has_schema = get(config, "responseSchema") or get(config, "responseJsonSchema")
    if has_schema and get(config, "responseMimeType") not in ("application/json", "text/x.enum"):
        yield finding(path, "schema-mime", "a response schema needs responseMimeType JSON")
