"""Rules of Gemini's generateContent; keys are read in both spellings, camelCase and snake_case.

The server joins adjacent contents of one role. The rules allow everything in recorded requests that the server accepted
(2025, 2026): media types are not compared with the bytes, and results may be in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import at, objects, put, remove, shown
from cannery.doctor.providers._gemini_contents import (
    NAME,
    contents_of,
    get,
    rename,
    spelled,
)
from cannery.doctor.providers._gemini_settings import SETTINGS_CHECKS
from cannery.doctor.shared import (
    illegal_names,
    is_fernet,
    lone_surrogates,
    replace_surrogates,
)
from cannery.families.gemini.models import (
    STAND_IN,
    needs_signatures,
    same_family,
)
from cannery.wire.foreign import STAND_INS
from cannery.wire.markers import NO_RESULT, orphan_text
from cannery.wire.places import Path

_DATA = (
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
Part = tuple[Path, Object]


def _parts(judged: Judged) -> Iterator[tuple[Object, Path, Object]]:
    for path, content in contents_of(judged):
        held = content.get("parts")
        listed = (
            [((*path, "parts"), held)]
            if isinstance(held, dict)
            else objects(held, (*path, "parts"))
        )
        for where, part in listed:
            yield content, where, part


def _turns(judged: Judged) -> list[tuple[str, list[Part]]]:
    """The turns: adjacent contents of one role are one."""
    turns: list[tuple[str, list[Part]]] = []
    for content, path, part in _parts(judged):
        role = "model" if content.get("role") == "model" else "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].append((path, part))
    return turns


def _with(parts: list[Part], key: str) -> list[Part]:
    return [(path, part) for path, part in parts if isinstance(get(part, key), dict)]


# --- contents -------------------------------------------------------------------------------------


def _no_contents(judged: Judged) -> Iterator[Broken]:
    if not judged.body.get("contents"):
        yield ("contents",), "contents is required, and not empty"


def _roles(judged: Judged) -> Iterator[Broken]:
    for path, content in contents_of(judged):
        if content.get("role") not in (None, "", "user", "model", "function"):
            yield (*path, "role"), f"the role is {shown(content.get('role'))}, not user or model"


def _set_role(judged: Judged, path: Path) -> str | None:
    role = at(judged.body, path)
    put(judged.body, path, "model" if role == "assistant" else "user")
    return f"made {role!r} {at(judged.body, path)!r}"


def _empty(judged: Judged) -> Iterator[Broken]:
    held = judged.body.get("contents")
    for index, content in enumerate(held if isinstance(held, list) else ()):
        if not isinstance(content, dict):
            yield ("contents", index), f"a content is an object, not {shown(content)}"
        elif not content.get("parts"):
            yield ("contents", index), "a content needs at least one part"


def _drop_content(judged: Judged, path: Path) -> str | None:
    remove(judged.body, path[:2])
    return "removed the content"


def _unions(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        given = [key for key in _DATA if get(part, key) is not None]
        if len(given) > 1:
            yield path, f"a part says one thing, not {' and '.join(given)}"
        elif not given and not _says(part):
            yield path, "a part without text, data or call"


def _says(part: Object) -> bool:
    """Whether a part without a known field has an unknown one, which may be new."""
    known = ("thought", "thoughtSignature", "thought_signature", "partMetadata", "videoMetadata")
    return any(key not in known for key in part)


def _blank(judged: Judged) -> Iterator[Broken]:
    for path, content in contents_of(judged):
        parts = [part for _, part in objects(content.get("parts"), ())]
        if parts and all(_is_empty(part) for part in parts):
            yield path, "all parts of the content are empty text"


def _is_empty(part: Object) -> bool:
    return part.get("text") == "" and not get(part, "thoughtSignature") and len(part) <= 2


def _drop_part(judged: Judged, path: Path) -> str | None:
    remove(judged.body, path)
    if not at(judged.body, path[:-1]):
        return _drop_content(judged, path)
    return "removed the part"


# --- calls and responses ----------------------------------------------------------------------------


def _unanswered(judged: Judged) -> Iterator[Broken]:
    turns = _turns(judged)
    for number, (role, parts) in enumerate(turns):
        calls = _with(parts, "functionCall") if role == "model" else []
        following = turns[number + 1][1] if number + 1 < len(turns) else []
        responses = [
            get(part, "functionResponse") for _, part in _with(following, "functionResponse")
        ]
        for path, call in _left(calls, responses):
            yield path, f"the call of {shown(call.get('name'))} has no response in the next turn"


def _left(calls: list[Part], responses: list[Object]) -> Iterator[tuple[Path, Object]]:
    """The calls without a response: paired by id if both have one, otherwise by name."""
    free = list(responses)
    for path, part in calls:
        call = get(part, "functionCall")
        found = next((each for each in free if _answers(each, call)), None)
        if found is None:
            yield path, call
        else:
            free.remove(found)


def _answers(response: Object, call: Object) -> bool:
    if response.get("id") and call.get("id"):
        return bool(response["id"] == call["id"])
    return bool(response.get("name") == call.get("name"))


def _answer(judged: Judged, path: Path) -> str | None:
    call = get(at(judged.body, path), "functionCall")
    named = {key: call[key] for key in ("id", "name") if call.get(key)}
    response = {"functionResponse": {**named, "response": {"error": NO_RESULT}}}
    contents, place = judged.messages, int(path[1]) + 1
    while place < len(contents) and contents[place].get("role") == "model":
        place += 1
    following = contents[place] if place < len(contents) else {}
    if _with(objects(following.get("parts"), ()), "functionResponse"):
        calls = _with(objects(contents[int(path[1])]["parts"], path[:3]), "functionCall")
        following["parts"].insert([where for where, _ in calls].index(path), response)
    else:
        contents.insert(place, {"role": "user", "parts": [response]})
    return f"added an error response to the call of {call.get('name')}"


def _unasked(judged: Judged) -> Iterator[tuple[Path, str, bool]]:
    turns = _turns(judged)
    for number, (role, parts) in enumerate(turns):
        responses = _with(parts, "functionResponse")
        before = turns[number - 1] if number else ("", [])
        calls = [get(part, "functionCall") for _, part in _with(before[1], "functionCall")]
        free = list(calls) if role == "user" and before[0] == "model" else []
        for path, part in responses:
            response = get(part, "functionResponse")
            found = next((call for call in free if _answers(response, call)), None)
            if found is not None:
                free.remove(found)
                continue
            is_twice = any(_answers(response, call) for call in calls)
            yield (
                path,
                f"a response of {shown(response.get('name'))} without a call before it",
                is_twice,
            )


def _orphans(judged: Judged) -> Iterator[Broken]:
    yield from ((path, text) for path, text, is_twice in _unasked(judged) if not is_twice)


def _twice(judged: Judged) -> Iterator[Broken]:
    for path, text, is_twice in _unasked(judged):
        if is_twice:
            yield (
                path,
                text.replace("a response", "a second response").replace(
                    "without a call before it", "to one call"
                ),
            )


def _say_response(judged: Judged, path: Path) -> str | None:
    response = get(at(judged.body, path), "functionResponse")
    import json

    said = json.dumps(response.get("response"), ensure_ascii=False)
    put(judged.body, path, {"text": orphan_text(str(response.get("name")), said)})
    return "turned the response into text"


def _first_calls(judged: Judged) -> Iterator[Broken]:
    turns = _turns(judged)
    if turns and turns[0][0] == "model" and _with(turns[0][1], "functionCall"):
        yield turns[0][1][0][0], "a call comes directly behind a user turn or a response"


def _names(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        for key in ("functionCall", "functionResponse"):
            held = get(part, key)
            if isinstance(held, dict):
                where = (*path, spelled(part, key), "name")
                yield from illegal_names([(where, held.get("name"))], NAME)


def _objects(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        for key, inner in (("functionCall", "args"), ("functionResponse", "response")):
            held = get(part, key)
            if not isinstance(held, dict):
                continue
            value = held.get(inner)
            is_needed = key == "functionResponse" and value is None
            if is_needed or not isinstance(value, (dict, type(None))):
                yield (
                    (*path, spelled(part, key), inner),
                    f"{inner} is an object, not {shown(value)}",
                )


def _wrap(judged: Judged, path: Path) -> str | None:
    given = at(judged.body, path)
    put(
        judged.body,
        path,
        {} if given is None else {"output" if path[-1] == "response" else "input": given},
    )
    return "wrapped the value in an object"


# --- signatures -------------------------------------------------------------------------------------


def _unsigned(judged: Judged) -> Iterator[Broken]:
    """The first call of each step in the current turn must have its signature."""
    if not needs_signatures(judged.model):
        return
    contents = contents_of(judged)
    start = max((n for n, (_, content) in enumerate(contents) if _is_asked(content)), default=0)
    for path, content in contents[start:]:
        calls = _with(objects(content.get("parts"), (*path, "parts")), "functionCall")
        if content.get("role") == "model" and calls and not get(calls[0][1], "thoughtSignature"):
            yield calls[0][0], "the first call of a step has lost its thoughtSignature"


def _is_asked(content: Object) -> bool:
    """Whether a content has text of the user, which begins a new turn."""
    parts = objects(content.get("parts"), ())
    return content.get("role") != "model" and any(
        isinstance(part.get("text"), str) for _, part in parts
    )


def _sign(judged: Judged, path: Path) -> str | None:
    at(judged.body, path)["thoughtSignature"] = STAND_IN
    return "put the documented stand-in in the place of the signature"


def _strange(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        signed = get(part, "thoughtSignature")
        if not signed or signed in STAND_INS:
            continue
        if is_fernet(signed):
            yield path, "the thoughtSignature is an encrypted payload of OpenAI's"
        elif decoded(signed, urlsafe=True) is None:
            yield path, f"the thoughtSignature {shown(signed)} is not base64"


def _foreign(judged: Judged) -> Iterator[Broken]:
    for content, path, part in _parts(judged):
        made_by = judged.maker(content)
        if get(part, "thoughtSignature") and made_by and not same_family(made_by, judged.model):
            yield path, f"{made_by} signed this part; {judged.model} may not take it"


def _unsign(judged: Judged, path: Path) -> str | None:
    part = at(judged.body, path)
    del part[spelled(part, "thoughtSignature")]
    return "removed the signature"


# --- media ------------------------------------------------------------------------------------------


def _media(judged: Judged) -> Iterator[tuple[str, Broken]]:
    for _, path, part in _parts(judged):
        blob, file = get(part, "inlineData"), get(part, "fileData")
        if isinstance(blob, dict):
            if not get(blob, "mimeType"):
                yield "media-type", (path, "inline data need a mimeType")
            elif not blob.get("data") or decoded(blob.get("data"), urlsafe=True) is None:
                yield "base64", (path, "the data are empty or not base64")
        if isinstance(file, dict) and not get(file, "fileUri"):
            yield "file-source", (path, "a file needs its fileUri")


def _of_media(code: str) -> Any:
    def find(judged: Judged) -> Iterator[Broken]:
        yield from (broken for found, broken in _media(judged) if found == code)

    return find


# Types that Gemini cannot read (https://ai.google.dev/gemini-api/docs/image-understanding and related pages).
_UNREAD = ("image/gif", "image/svg+xml", "image/tiff", "image/bmp", "image/x-icon")


def _types(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        blob = get(part, "inlineData")
        declared = get(blob, "mimeType")
        if isinstance(declared, str) and declared.lower() in _UNREAD[1:]:
            yield path, f"{declared} is not PNG, JPEG, WebP, HEIC or HEIF"


def _note(judged: Judged, path: Path) -> str | None:
    part = at(judged.body, path)
    kind = get(get(part, "inlineData"), "mimeType") or "file"
    put(judged.body, path, {"text": f"[{kind} left out]"})
    return "replaced the part by a line of text"


_API = "https://ai.google.dev/api/generate-content"
_CALLING = "https://ai.google.dev/gemini-api/docs/function-calling"
_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_BUDGETS = "https://ai.google.dev/gemini-api/docs/thinking"
_FILES = "https://ai.google.dev/gemini-api/docs/file-input-methods"
_IMAGES = "https://ai.google.dev/gemini-api/docs/image-understanding"
_READ = "2026-11-15"
_NOW = "2026-11-18"

CHECKS: tuple[Check, ...] = (
    Check(
        "surrogate",
        lone_surrogates,
        "RFC 8259, section 8.1: a body is UTF-8",
        _NOW,
        fix=replace_surrogates,
    ),
    Check("messages-missing", _no_contents, _API, _READ, SETTINGS),
    Check(
        "role",
        _roles,
        "recorded error 'Please use a valid role: user, model.' 2025",
        _NOW,
        fix=_set_role,
    ),
    Check(
        "part-union",
        _unions,
        "server error 'required oneof field data must have one initialized field'",
        _READ,
        fix=_drop_part,
    ),
    Check(
        "blank-text",
        _blank,
        "server error 'contents.parts must not be empty'",
        _READ,
        severity=WARNING,
    ),
    Check(
        "empty", _empty, "server error 'contents.parts must not be empty'", _READ, fix=_drop_content
    ),
    Check("input-object", _objects, _API, _READ, fix=_wrap),
    Check("name-charset", _names, _CALLING, _READ, fix=rename),
    Check(
        "result-duplicate",
        _twice,
        "server error 'the number of function response parts is equal to the number of function call parts'",
        _READ,
        fix=_drop_part,
    ),
    Check(
        "result-orphan",
        _orphans,
        "server error 'function response turn comes immediately after a function call turn'",
        _READ,
        fix=_say_response,
    ),
    Check(
        "call-unanswered",
        _unanswered,
        "server error 'the number of function response parts is equal to the number of function call parts'",
        _READ,
        fix=_answer,
    ),
    Check(
        "call-first",
        _first_calls,
        "server error 'function call turn comes immediately after a user turn'",
        _READ,
    ),
    Check("signature-missing", _unsigned, _SIGNATURES, _NOW, fix=_sign),
    Check(
        "signature-shape",
        _strange,
        f"{_SIGNATURES}; server error 'Thought signature is not valid'",
        _NOW,
        fix=_unsign,
    ),
    Check("signature-model", _foreign, _SIGNATURES, _NOW, severity=WARNING),
    Check("media-type", _of_media("media-type"), _API, _READ, fix=_note),
    Check("image-type", _types, _IMAGES, _NOW, fix=_note),
    Check("base64", _of_media("base64"), _API, _READ, fix=_note),
    Check("file-source", _of_media("file-source"), _API, _READ, fix=_note),
    *SETTINGS_CHECKS,
)
