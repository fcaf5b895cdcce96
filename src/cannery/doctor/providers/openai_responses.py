"""Rules of OpenAI Responses: ``call_id`` pairs a call with its output, reasoning precedes its item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import at, objects, put, remove, shown
from cannery.doctor.providers import _openai_models as models
from cannery.doctor.providers._openai_shared import (
    API,
    NAME,
    PATTERN,
    breakpoints,
    file_problems,
    image_problems,
    rename,
    set_media_note,
)
from cannery.doctor.providers._responses_items import (
    has_state,
    items_of,
    key_of,
    kind_of,
)
from cannery.doctor.providers._responses_settings import SETTINGS_CHECKS
from cannery.doctor.shared import (
    drop,
    illegal_names,
    is_fernet,
    legal_name,
    lone_surrogates,
    missing,
    replace_surrogates,
)
from cannery.wire.markers import NO_RESULT, orphan_text
from cannery.wire.places import Path

_LONGEST_ID = 64
_PAIRS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "computer_call_output": "computer_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
}
_CALLS = frozenset(_PAIRS.values())
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_NOT_BEHIND = frozenset({*_PAIRS, "compaction_trigger", "item_reference"})
_REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    "function_call": {"call_id": (str,), "name": (str,)},
    "function_call_output": {"call_id": (str,), "output": (str, list)},
    "custom_tool_call": {"call_id": (str,), "name": (str,), "input": (str,)},
    "custom_tool_call_output": {"call_id": (str,), "output": (str, list)},
    "reasoning": {"summary": (list,)},
    "item_reference": {"id": (str,)},
}
_ROLES = ("user", "assistant", "system", "developer")


# --- items ----------------------------------------------------------------------------------------


def _no_input(judged: Judged) -> Iterator[Broken]:
    if judged.body.get("input") in (None, "", []) and not has_state(judged):
        yield ("input",), "input is required, and not empty"


def _no_model(judged: Judged) -> Iterator[Broken]:
    if judged.model is None and not judged.body.get("prompt"):
        yield ("model",), "model is required"


def _shapes(judged: Judged) -> Iterator[Broken]:
    held = judged.body.get("input")
    for index, item in enumerate(held if isinstance(held, list) else ()):
        path = ("input", index)
        if not isinstance(item, dict):
            yield path, f"an item is an object, not {shown(item)}"
        elif kind_of(item) == "message" and item.get("role") not in _ROLES:
            yield (*path, "role"), f"no role is called {shown(item.get('role'))}"
        elif kind_of(item) == "message" and not isinstance(item.get("content"), (str, list)):
            yield (*path, "content"), f"content is text or a list, not {shown(item.get('content'))}"


def _fields(judged: Judged) -> Iterator[Broken]:
    for path, item in items_of(judged):
        yield from missing(item, _REQUIRED.get(kind_of(item), {}), path)
    for _, path, part in _parts(judged):
        if not isinstance(part.get("type"), str):
            yield (*path, "type"), "type is required in a part"
        if part.get("type") in ("input_text", "output_text"):
            yield from missing(part, {"text": (str,)}, path)


def _arguments(judged: Judged) -> Iterator[Broken]:
    for path, item in items_of(judged):
        if kind_of(item) == "function_call" and not isinstance(item.get("arguments"), str):
            given = shown(item.get("arguments"))
            yield (*path, "arguments"), f"arguments are JSON in a text, not {given}"


def _spell_arguments(judged: Judged, path: Path) -> str | None:
    given = at(judged.body, path)
    put(judged.body, path, "{}" if given is None else json.dumps(given, ensure_ascii=False))
    return "wrote the arguments as text"


def _unanswered(judged: Judged) -> Iterator[Broken]:
    if has_state(judged) and judged.body.get("previous_response_id") is None:
        return
    answered = {
        (_PAIRS[kind_of(item)], key_of(item))
        for _, item in items_of(judged)
        if kind_of(item) in _PAIRS
    }
    for path, item in items_of(judged):
        environment = item.get("environment")
        is_hosted = (
            isinstance(environment, dict) and environment.get("type") == "container_reference"
        )
        if (
            kind_of(item) in _CALLS
            and not is_hosted
            and (kind_of(item), key_of(item)) not in answered
        ):
            yield path, f"the call {shown(key_of(item))} has no output"


def _answer(judged: Judged, path: Path) -> str | None:
    item, place = at(judged.body, path), int(path[1]) + 1
    kind = kind_of(item)
    if kind not in ("function_call", "custom_tool_call"):
        return None
    items = judged.messages
    while place < len(items) and isinstance(items[place], dict) and kind_of(items[place]) in _CALLS:
        place += 1
    output = {"type": f"{kind}_output", "call_id": item.get("call_id"), "output": NO_RESULT}
    items.insert(place, output)
    return f"added an output for the call {item.get('call_id')}"


def _unasked(judged: Judged) -> Iterator[tuple[Path, str, bool]]:
    called: set[Any] = set()
    answered: set[Any] = set()
    for path, item in items_of(judged):
        kind = kind_of(item)
        if kind in _CALLS:
            called.add((kind, key_of(item)))
        elif kind == "tool_search_call":
            # Recorded: a search of the client's own tools may be answered by a plain function_call_output.
            called.add(("function_call", key_of(item)))
        elif kind in _PAIRS:
            key = _PAIRS[kind], key_of(item)
            if key in answered:
                yield path, f"a second output for {shown(key_of(item))}", True
            elif key not in called and not has_state(judged):
                yield (
                    path,
                    f"an output for {shown(key_of(item))}, which nothing before calls",
                    False,
                )
            answered.add(key)


def _orphans(judged: Judged) -> Iterator[Broken]:
    yield from ((path, text) for path, text, is_twice in _unasked(judged) if not is_twice)


def _twice(judged: Judged) -> Iterator[Broken]:
    yield from ((path, text) for path, text, is_twice in _unasked(judged) if is_twice)


def _say_output(judged: Judged, path: Path) -> str | None:
    item = at(judged.body, path)
    output = item.get("output")
    said = (
        output
        if isinstance(output, str)
        else "".join(str(part.get("text", "")) for _, part in objects(output, ()))
    )
    text = orphan_text(str(key_of(item)), said)
    item.clear()
    item.update(type="message", role="user", content=[{"type": "input_text", "text": text}])
    return "turned the output into a user message"


def _drop_item(judged: Judged, path: Path) -> str | None:
    kind = kind_of(at(judged.body, path[:2]))
    remove(judged.body, path[:2])
    return f"removed the {kind} item"


def _same_calls(judged: Judged) -> Iterator[Broken]:
    seen: set[Any] = set()
    for path, item in items_of(judged):
        if kind_of(item) in _CALLS:
            key = kind_of(item), key_of(item)
            if key in seen:
                yield path, f"two calls have the id {shown(key_of(item))}"
            seen.add(key)


def _ids(judged: Judged) -> Iterator[Broken]:
    for path, item in items_of(judged):
        kind, call_id, name = kind_of(item), item.get("call_id"), item.get("id")
        is_called = kind in _CALLS or (kind in _PAIRS and kind != "local_shell_call_output")
        if is_called and isinstance(call_id, str) and not 1 <= len(call_id) <= _LONGEST_ID:
            yield (
                (*path, "call_id"),
                f"call_id has {len(call_id)} characters; 1 to {_LONGEST_ID} are allowed",
            )
        if isinstance(name, str) and len(name) > _LONGEST_ID and models.model_of(judged.model):
            yield (*path, "id"), f"id has {len(name)} characters; {_LONGEST_ID} are allowed"


def _rename_id(judged: Judged, path: Path) -> str | None:
    if path[-1] == "id":
        return drop(judged, path)
    old = at(judged.body, path)
    put(judged.body, path, legal_name(old, PATTERN, _LONGEST_ID))
    return f"renamed the id {old!r} to {at(judged.body, path)}"


def _prefixes(judged: Judged) -> Iterator[Broken]:
    if not models.model_of(judged.model):
        return
    for path, item in items_of(judged):
        prefix, name = _PREFIXES.get(kind_of(item)), item.get("id")
        if prefix and isinstance(name, str) and not name.startswith(prefix):
            yield (*path, "id"), f"the id {shown(name)} does not begin with {prefix!r}"


def _names(judged: Judged) -> Iterator[Broken]:
    for path, item in items_of(judged):
        if kind_of(item) in ("function_call", "custom_tool_call") and item.get("name") is not None:
            yield from illegal_names([((*path, "name"), item["name"])], NAME)


# --- reasoning --------------------------------------------------------------------------------------


def _detached(judged: Judged) -> Iterator[Broken]:
    items = items_of(judged)
    for number, (path, item) in enumerate(items):
        if kind_of(item) != "reasoning" or not models.model_of(judged.model):
            continue
        behind = items[number + 1][1] if number + 1 < len(items) else None
        is_unnamed = behind is not None and kind_of(behind) == "message" and not behind.get("id")
        if behind is None or _is_other(behind) or (is_unnamed and item.get("id")):
            yield path, "a reasoning item without the message or call that it belongs to"


def _is_other(item: Object) -> bool:
    if kind_of(item) == "message":
        return item.get("role") != "assistant"
    return kind_of(item) in _NOT_BEHIND


def _forgotten(judged: Judged) -> Iterator[Broken]:
    if judged.body.get("store") is not False:
        return
    for path, item in items_of(judged):
        is_named = isinstance(item.get("id"), str) and item["id"].startswith("rs")
        if (
            kind_of(item) == "reasoning"
            and is_named
            and not item.get("encrypted_content")
            and models.model_of(judged.model)
        ):
            yield (
                path,
                "store is false, so that the server does not know this item without encrypted_content",
            )


def _encrypted(judged: Judged) -> Iterator[Broken]:
    if not models.model_of(judged.model):
        return
    for path, item in items_of(judged):
        held = item.get("encrypted_content")
        if kind_of(item) == "reasoning" and held and not is_fernet(held) and _is_foreign(held):
            yield path, f"encrypted_content {shown(held)} is not OpenAI's"


def _is_foreign(held: Any) -> bool:
    """Whether a payload is not base64 in either alphabet, or is a signature of Anthropic's."""
    data = decoded(held, urlsafe=True)
    return data is None or (decoded(held) or b"")[:1] == b"\x12"


def _odd(judged: Judged) -> Iterator[Broken]:
    if not models.model_of(judged.model):
        return
    for path, item in items_of(judged):
        held = item.get("encrypted_content")
        if kind_of(item) == "reasoning" and held and not is_fernet(held) and not _is_foreign(held):
            yield path, f"encrypted_content {shown(held)} does not begin as OpenAI's does"


def _foreign(judged: Judged) -> Iterator[Broken]:
    for path, item in items_of(judged):
        made_by = judged.maker(item)
        is_sealed = kind_of(item) == "reasoning" and item.get("encrypted_content")
        if is_sealed and made_by and judged.model and _family(made_by) != _family(judged.model):
            yield path, f"{made_by} encrypted this reasoning; {judged.model} may not take it"


def _family(name: str) -> Any:
    model = models.model_of(name)
    return name if model is None else (model.is_o_series, model.version[0])


# --- parts ------------------------------------------------------------------------------------------


def _parts(judged: Judged) -> Iterator[tuple[Object, Path, Object]]:
    for path, item in items_of(judged):
        key = "content" if kind_of(item) == "message" else "output"
        if kind_of(item) == "message" or kind_of(item) in (
            "function_call_output",
            "custom_tool_call_output",
        ):
            for where, part in objects(item.get(key), (*path, key)):
                yield item, where, part


def _roles(judged: Judged) -> Iterator[Broken]:
    for item, path, part in _parts(judged):
        if kind_of(item) != "message":
            continue
        is_spoken = part.get("type") in ("output_text", "refusal")
        is_known = str(part.get("type")).startswith(("input_", "output_")) or is_spoken
        if (
            is_known
            and (item.get("role") == "assistant") != is_spoken
            and models.model_of(judged.model)
        ):
            yield (
                (*path, "type"),
                f"{part.get('type')} does not go with the role {item.get('role')}",
            )


def _set_role(judged: Judged, path: Path) -> str | None:
    part = at(judged.body, path[:-1])
    if part.get("type") not in ("input_text", "output_text"):
        return None
    part["type"] = "output_text" if part["type"] == "input_text" else "input_text"
    return f"made it {part['type']}"


def _images(judged: Judged) -> Iterator[tuple[Path, Any]]:
    for _, path, part in _parts(judged):
        if part.get("type") == "input_image" and not part.get("file_id"):
            yield path, part.get("image_url")


def _files(code: str) -> Any:
    def find(judged: Judged) -> Iterator[Broken]:
        for _, path, part in _parts(judged):
            if part.get("type") != "input_file":
                continue
            for found, (_, text) in file_problems(part, "file_data", path):
                if found == code:
                    yield path, text
            has_source = any(part.get(key) for key in ("file_data", "file_id", "file_url"))
            if code == "file-source" and not has_source:
                yield path, "a file has none of file_data, file_id and file_url"
            if code == "media-type" and _is_sound(part.get("file_url")):
                yield path, f"{shown(part['file_url'])} is neither text nor a document"

    return find


def _is_sound(url: Any) -> bool:
    endings = (".mp3", ".wav", ".ogg", ".flac", ".m4a", ".mp4", ".webm", ".mov", ".avi", ".mkv")
    return isinstance(url, str) and url.lower().partition("?")[0].endswith(endings)


def _note(judged: Judged, path: Path) -> str | None:
    return set_media_note(judged, path, "input_text")


def _trigger(judged: Judged) -> Iterator[Broken]:
    items = items_of(judged)
    for path, item in items[:-1]:
        if kind_of(item) == "compaction_trigger":
            yield path, "compaction_trigger must be the last item"


_RESPONSES = f"{API}/responses/create"
_VISION = "https://platform.openai.com/docs/guides/images-vision"
_FILES = "https://platform.openai.com/docs/guides/pdf-files"
_REASONING = "https://developers.openai.com/api/docs/guides/reasoning"
_STRICT = "https://platform.openai.com/docs/guides/structured-outputs"
_READ = "2026-11-15"
_NOW = "2026-11-18"
_RANGES = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "top_logprobs": (0.0, 20.0)}

CHECKS: tuple[Check, ...] = (
    Check(
        "surrogate",
        lone_surrogates,
        "RFC 8259, section 8.1: a body is UTF-8",
        _NOW,
        fix=replace_surrogates,
    ),
    Check("model-missing", _no_model, _RESPONSES, _READ, SETTINGS),
    Check("messages-missing", _no_input, _RESPONSES, _READ, SETTINGS),
    Check("shape", _shapes, "types of openai 3.49.0", _READ),
    Check("field-missing", _fields, "types of openai 3.49.0", _READ),
    Check("arguments", _arguments, _RESPONSES, _READ, fix=_spell_arguments),
    Check(
        "id-length",
        _ids,
        "server error 'string too long. Expected a string with maximum length 64'",
        _READ,
        fix=_rename_id,
    ),
    Check(
        "id-prefix",
        _prefixes,
        "server error \"Expected an ID that begins with 'fc'\"",
        _READ,
        fix=drop,
    ),
    Check("id-duplicate", _same_calls, "server errors quoted in public", _READ),
    Check("name-charset", _names, _RESPONSES, _READ, fix=rename),
    Check("result-duplicate", _twice, _RESPONSES, _READ, fix=_drop_item),
    Check(
        "result-orphan",
        _orphans,
        "server error 'No tool call found for function call output'",
        _READ,
        fix=_say_output,
    ),
    Check(
        "call-unanswered",
        _unanswered,
        "recorded error 'No tool output found' 2026",
        _NOW,
        fix=_answer,
    ),
    Check(
        "reasoning-detached",
        _detached,
        "recorded error 'provided without its required following item' 2025",
        _NOW,
        fix=_drop_item,
    ),
    Check(
        "reasoning-unknown",
        _forgotten,
        "server error 'Items are not persisted when `store` is set to false'",
        _READ,
        fix=_drop_item,
    ),
    Check(
        "signature-shape",
        _encrypted,
        "server error 'invalid_encrypted_content' (openai/codex#8119)",
        _NOW,
        fix=_drop_item,
    ),
    Check("signature-odd", _odd, "394 recorded requests", _NOW, severity=WARNING),
    Check(
        "signature-model",
        _foreign,
        "server error 'invalid_encrypted_content'",
        _NOW,
        severity=WARNING,
    ),
    Check(
        "part-role",
        _roles,
        "server error 'Supported values are: output_text and refusal'",
        _READ,
        fix=_set_role,
    ),
    Check("image-url", image_problems("image-url", _images), _VISION, _NOW, fix=_note),
    Check("media-type", image_problems("media-type", _images), _VISION, _NOW, fix=_note),
    Check("base64", image_problems("base64", _images), _VISION, _NOW, fix=_note),
    Check("file-type", _files("media-type"), f"{_FILES}; recorded errors 2026", _NOW, fix=_note),
    Check("file-base64", _files("base64"), _FILES, _NOW, fix=_note),
    Check("file-source", _files("file-source"), _RESPONSES, _READ, fix=_note),
    Check("compaction", _trigger, "types of openai 3.49.0", _READ, fix=_drop_item),
    Check("cache-marks", breakpoints, _RESPONSES, _READ, fix=drop),
    *SETTINGS_CHECKS,
)
