"""Rules of Bedrock Converse that do not depend on the model.

Sources: the service model of botocore 1.44 (patterns, lengths, required members), the API reference and the user guide
of AWS, and publicly quoted errors. The rules allow everything in recorded requests that the server accepted (2025,
2026): names of documents may have underscores, a conversation may begin with the assistant or have two user messages in
a row, and white space is allowed around text. The URL names the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import at, is_blank, objects, put, remove, shown, walk
from cannery.doctor.providers._exchanges import (
    CALL,
    RESULT,
    TURN,
    Event,
    Find,
    duplicates,
    orphans,
    unanswered,
)
from cannery.doctor.providers._fields import BEDROCK, foreign_fields, unknown_fields
from cannery.doctor.shared import (
    broken_picture,
    drop,
    duplicate_names,
    illegal_names,
    lone_surrogates,
    ranges,
    replace_surrogates,
    schema_problems,
    types,
    wrong_types,
)
from cannery.messages.json_text import write_json
from cannery.wire.markers import NO_RESULT, orphan_text
from cannery.wire.places import Path

_READ = "2026-11-18"
_MODEL = "service model of botocore 1.44"
_REFERENCE = "docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_"
_ERRORS = "errors of the API quoted in public"
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DOCUMENT_NAME = re.compile(r"[A-Za-z0-9_()\[\]-]+(?: [A-Za-z0-9_()\[\]-]+)*")
_ROLES = ("user", "assistant", "system")
_OF_USERS = ("image", "document", "video", "audio", "searchResult")
_MOST_MARKS, _MOST_IMAGES, _MOST_DOCUMENTS = 4, 20, 5
_MOST_METADATA = 16
Held = Iterator[tuple[Path, Object, Object]]


def _messages(judged: Judged) -> list[tuple[Path, Object]]:
    return objects(judged.body.get("messages"), ("messages",))


def _blocks(judged: Judged) -> Held:
    """Each block of each message, with its message."""
    for path, message in _messages(judged):
        for where, block in objects(message.get("content"), (*path, "content")):
            yield where, block, message


def _all_blocks(judged: Judged) -> Iterator[tuple[Path, Object]]:
    """Blocks at any depth, except in inputs and outputs of tools."""
    for key in ("system", "messages"):
        yield from walk(judged.body.get(key), (key,), ("input", "json"))


def _held(judged: Judged, *kinds: str) -> Held:
    """The values of some kinds of blocks, with the block; server tools are excluded."""
    for path, block, _ in _blocks(judged):
        for kind in kinds:
            held = block.get(kind)
            if isinstance(held, dict) and held.get("type") in (None, "tool_use"):
                yield (*path, kind), held, block


# --- messages -------------------------------------------------------------------------------------


def _no_messages(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("messages")
    # A stored prompt contains its own messages.
    is_prompt = given in (None, []) and bool(judged.body.get("promptVariables"))
    if not is_prompt and (not isinstance(given, list) or not given):
        yield ("messages",), "messages is required: a list of at least one"


def _shapes(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("messages")
    for index, message in enumerate(given if isinstance(given, list) else ()):
        path: Path = ("messages", index)
        if not isinstance(message, dict):
            yield path, f"a message is an object, not {shown(message)}"
            continue
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            yield (*path, "role"), f"the role is {shown(role)}, not one of {', '.join(_ROLES)}"
        if not isinstance(content, list) or not content:
            yield (*path, "content"), "content is a list of at least one block"
            continue
        for number, block in enumerate(content):
            if not isinstance(block, dict) or len(block) != 1:
                yield (*path, "content", number), "a block is an object with one key"


def _blank(judged: Judged) -> Iterator[Broken]:
    for path, message in _messages(judged):
        content = objects(message.get("content"), (*path, "content"))
        if content and all(is_blank(block.get("text")) for _, block in content):
            yield (*path, "content"), "the content is blank"
            continue
        yield from (
            (where, "the text is empty") for where, each in content if each.get("text") == ""
        )
    for where, block in objects(judged.body.get("system"), ("system",)):
        if block.get("text") == "":
            yield where, "the text is empty"
    for path, held, _ in _held(judged, "toolResult"):
        for where, part in objects(held.get("content"), (*path, "content")):
            if part.get("text") == "":
                yield where, "the text is empty"


def _system(judged: Judged) -> Iterator[Broken]:
    messages = _messages(judged)
    roles = [message.get("role") for _, message in messages]
    for index, (path, _) in enumerate(messages):
        if roles[index] == "system" and (
            index == 0
            or roles[index - 1] == "assistant"
            or roles[index + 1 : index + 2] == ["user"]
        ):
            yield path, "a system message follows a user message and precedes an assistant message"


def _places(judged: Judged) -> Iterator[Broken]:
    for path, block, message in _blocks(judged):
        for kind in _OF_USERS:
            if kind in block and message.get("role") != "user":
                yield path, f"only users show {kind}"


def _alone(judged: Judged) -> Iterator[Broken]:
    for path, message in _messages(judged):
        blocks = [block for _, block in objects(message.get("content"), ())]
        if any("document" in each for each in blocks) and not any(
            "text" in each for each in blocks
        ):
            yield (*path, "content"), "a document needs a text beside it"


def _counts(judged: Judged) -> Iterator[Broken]:
    for kind, limit in (("image", _MOST_IMAGES), ("document", _MOST_DOCUMENTS)):
        found = [path for path, block, _ in _blocks(judged) if kind in block]
        if len(found) > limit:
            yield found[limit], f"{len(found)} blocks of {kind}; {limit} are allowed"


# --- calls and results ------------------------------------------------------------------------------


def _events(judged: Judged) -> Iterator[Event]:
    """Calls must be answered in the next message; system messages are ignored."""
    for path, message in _messages(judged):
        role = message.get("role")
        if role == "assistant":
            yield Event(TURN)
        for where, block in objects(message.get("content"), (*path, "content")):
            for kind, event in (("toolUse", CALL), ("toolResult", RESULT)):
                held = block.get(kind)
                if isinstance(held, dict) and held.get("type") in (None, "tool_use"):
                    yield Event(event, where, held.get("toolUseId"))
        if role == "user":
            yield Event(TURN)


def _answer(judged: Judged, path: Path) -> str | None:
    """Add an error result, in the next message if that has results."""
    name = at(judged.body, path)["toolUse"].get("toolUseId")
    told = {"toolUseId": name, "content": [{"text": NO_RESULT}], "status": "error"}
    place = int(path[1]) + 1
    following = judged.messages[place] if place < len(judged.messages) else None
    held = following.get("content") if isinstance(following, dict) else None
    if isinstance(held, list) and at(following, ("role",)) == "user":
        held.insert(0, {"toolResult": told})
    else:
        judged.messages.insert(place, {"role": "user", "content": [{"toolResult": told}]})
    return f"added an error result for the call {name}"


def _say_result(judged: Judged, path: Path) -> str | None:
    held = at(judged.body, path)["toolResult"]
    parts = objects(held.get("content"), ())
    said = "".join(
        part["text"] if isinstance(part.get("text"), str) else write_json(part) for _, part in parts
    )
    put(judged.body, path, {"text": orphan_text(str(held.get("toolUseId")), said)})
    return "turned the result into text"


def _drop_block(judged: Judged, path: Path) -> str | None:
    """Remove a block, and its message if it has no other."""
    holder = path[:-1] if isinstance(path[-1], int) else path
    if (
        path[0] == "messages"
        and holder == path[:3]
        and (path == holder or len(at(judged.body, holder)) == 1)
    ):
        remove(judged.body, path[:2])
        return "removed the message"
    remove(judged.body, path)
    return "removed the block"


def _ids(judged: Judged) -> Iterator[Broken]:
    for path, block, _ in _blocks(judged):
        for kind in ("toolUse", "toolResult"):
            held = block.get(kind)
            if isinstance(held, dict):
                named = [((*path, kind, "toolUseId"), held.get("toolUseId"))]
                yield from illegal_names(named, _ID, "id of a call")


def _specs(judged: Judged) -> list[tuple[Path, Object]]:
    config = judged.body.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else None
    found = [(path, tool.get("toolSpec")) for path, tool in objects(tools, ("toolConfig", "tools"))]
    return [((*path, "toolSpec"), spec) for path, spec in found if isinstance(spec, dict)]


def _names(judged: Judged) -> Iterator[Broken]:
    named = [((*path, "name"), spec.get("name")) for path, spec in _specs(judged)]
    named += [((*path, "name"), held.get("name")) for path, held, _ in _held(judged, "toolUse")]
    yield from illegal_names(named, _NAME)


def _inputs(judged: Judged) -> Iterator[Broken]:
    for path, held, _ in _held(judged, "toolUse"):
        if not isinstance(held.get("input"), dict):
            yield (*path, "input"), f"input is an object, not {shown(held.get('input'))}"


def _no_tools(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else None
    if config is not None and (not isinstance(tools, list) or not tools):
        yield ("toolConfig", "tools"), "toolConfig needs at least one tool"
    elif not tools and any(True for _ in _held(judged, "toolUse", "toolResult")):
        yield ("toolConfig",), "toolConfig is required where messages have calls or results"


def _tools(judged: Judged) -> Iterator[Broken]:
    for path, spec in _specs(judged):
        if spec.get("description") == "":
            yield (*path, "description"), "a description is not empty"
        schema = spec.get("inputSchema")
        inner = schema.get("json") if isinstance(schema, dict) else None
        if not isinstance(inner, dict):
            yield (*path, "inputSchema"), "inputSchema.json is required: an object"
        else:
            yield from schema_problems(inner, (*path, "inputSchema", "json"), needs_type=True)


def _choice(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("toolConfig")
    choice = config.get("toolChoice") if isinstance(config, dict) else None
    if choice is None:
        return
    if (
        not isinstance(choice, dict)
        or len(choice) != 1
        or not choice.keys() & {"auto", "any", "tool"}
    ):
        yield ("toolConfig", "toolChoice"), f"toolChoice is auto, any or tool, not {shown(choice)}"
    elif isinstance(choice.get("tool"), dict):
        tools = [tool for _, tool in objects(config.get("tools") if config else None, ())]
        names = [
            held.get("name") for tool in tools for held in tool.values() if isinstance(held, dict)
        ]
        if choice["tool"].get("name") not in names:
            yield ("toolConfig", "toolChoice"), "the tool is not in toolConfig.tools"


# --- documents and media ----------------------------------------------------------------------------


def _documents(judged: Judged) -> list[tuple[Path, Any]]:
    found = ((path, block.get("document")) for path, block in _all_blocks(judged))
    return [
        ((*path, "document", "name"), held.get("name"))
        for path, held in found
        if isinstance(held, dict)
    ]


def _document_names(judged: Judged) -> Iterator[Broken]:
    yield from illegal_names(_documents(judged), _DOCUMENT_NAME, "name of a document")
    for path, name in _documents(judged):
        if isinstance(name, str) and len(name) > 200:
            yield path, f"the name has {len(name)} characters; 200 are allowed"


def _same_names(judged: Judged) -> Iterator[Broken]:
    for path, text in duplicate_names(_documents(judged)):
        yield path, text.replace("two tools", "two documents")


def _media(code: str) -> Find:
    def find(judged: Judged) -> Iterator[Broken]:
        for path, block in _all_blocks(judged):
            for kind in ("image", "document", "video", "audio"):
                found = _broken_medium(block.get(kind), kind, (*path, kind))
                yield from (broken for name, broken in found if name == code)

    return find


def _broken_medium(held: Any, kind: str, path: Path) -> Iterator[tuple[str, Broken]]:
    source = held.get("source") if isinstance(held, dict) else None
    data = source.get("bytes") if isinstance(source, dict) else None
    if data is None:
        return
    if kind == "image":
        yield from broken_picture(data, f"image/{held.get('format')}", path)
    elif not data or decoded(data) is None:
        yield "base64", (path, "the data are empty or not base64")


# --- settings ---------------------------------------------------------------------------------------


def _marks(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("toolConfig")
    tools = walk(config.get("tools"), ("toolConfig", "tools")) if isinstance(config, dict) else ()
    found = [path for path, block in (*tools, *_all_blocks(judged)) if "cachePoint" in block]
    if len(found) > _MOST_MARKS:
        yield found[_MOST_MARKS], f"{len(found)} cache points; {_MOST_MARKS} are allowed"


def _inference(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("inferenceConfig")
    if not isinstance(config, dict):
        return
    kinds = {
        "maxTokens": (int,),
        "temperature": (float,),
        "topP": (float,),
        "stopSequences": (list,),
    }
    yield from wrong_types(config, kinds, ("inferenceConfig",))
    stops = config.get("stopSequences")
    for index, text in enumerate(stops if isinstance(stops, list) else ()):
        if not isinstance(text, str) or not text:
            yield ("inferenceConfig", "stopSequences", index), "a stop sequence is text, not empty"


def _thinking(judged: Judged) -> Iterator[Broken]:
    more, config = (judged.body.get(key) for key in ("additionalModelRequestFields", "toolConfig"))
    thinking = more.get("thinking") if isinstance(more, dict) else None
    choice = config.get("toolChoice") if isinstance(config, dict) else None
    is_on = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if is_on and isinstance(choice, dict) and choice.keys() & {"any", "tool"}:
        yield ("toolConfig", "toolChoice"), "thinking allows no forced tool"


def _metadata(judged: Judged) -> Iterator[Broken]:
    held = judged.body.get("requestMetadata")
    if isinstance(held, dict) and len(held) > _MOST_METADATA:
        yield ("requestMetadata",), f"{len(held)} pairs; {_MOST_METADATA} are allowed"


def _foreign(judged: Judged) -> Iterator[Broken]:
    yield from foreign_fields(judged.body, BEDROCK, ())


def _unknown(judged: Judged) -> Iterator[Broken]:
    yield from unknown_fields(judged.body, BEDROCK, ())


_KINDS = {
    "system": (list,),
    "inferenceConfig": (dict,),
    "toolConfig": (dict,),
    "guardrailConfig": (dict,),
    "promptVariables": (dict,),
    "requestMetadata": (dict,),
}
_LIMITS = {"temperature": (0, 1), "topP": (0, 1), "maxTokens": (1, 1_000_000)}

CHECKS = (
    Check("surrogate", lone_surrogates, "RFC 8259, section 8.2", _READ, fix=replace_surrogates),
    Check("messages-missing", _no_messages, f"{_REFERENCE}Converse.html", _READ, SETTINGS),
    Check("shape", _shapes, _MODEL, _READ),
    Check("blank-text", _blank, f"{_ERRORS}: the text field is blank", _READ, fix=_drop_block),
    Check("system-place", _system, f"{_REFERENCE}Message.html", _READ),
    Check("part-place", _places, f"{_REFERENCE}Message.html", _READ),
    Check("document-alone", _alone, f"{_REFERENCE}DocumentBlock.html", _READ),
    Check("media-count", _counts, f"{_REFERENCE}Message.html", _READ, severity=WARNING),
    Check("result-orphan", orphans(_events), _ERRORS, _READ, fix=_say_result),
    Check("result-duplicate", duplicates(_events), _ERRORS, _READ, fix=_drop_block),
    Check("call-unanswered", unanswered(_events), _ERRORS, _READ, fix=_answer),
    Check("id-charset", _ids, _MODEL, _READ),
    Check("name-charset", _names, _MODEL, _READ),
    Check("input-object", _inputs, _ERRORS, _READ),
    Check("tools-missing", _no_tools, f"{_ERRORS}: toolConfig must be defined", _READ, SETTINGS),
    Check("tools", _tools, f"{_MODEL}; {_ERRORS}", _READ, SETTINGS),
    Check(
        "name-duplicate",
        lambda judged: duplicate_names(
            [((*path, "name"), spec.get("name")) for path, spec in _specs(judged)]
        ),
        "common knowledge of such APIs",
        _READ,
        SETTINGS,
        WARNING,
    ),
    Check("tool-choice", _choice, _MODEL, _READ, SETTINGS),
    Check("document-name", _document_names, f"{_REFERENCE}DocumentBlock.html", _READ),
    Check("document-twice", _same_names, _ERRORS, _READ, severity=WARNING),
    Check("base64", _media("base64"), _MODEL, _READ),
    Check("media-mismatch", _media("media-mismatch"), _ERRORS, _READ),
    Check("cache-marks", _marks, f"{_REFERENCE}CachePointBlock.html", _READ, severity=WARNING),
    Check("type", types(_KINDS), _MODEL, _READ, SETTINGS),
    Check("inference", _inference, f"{_REFERENCE}InferenceConfiguration.html", _READ, SETTINGS),
    Check(
        "range",
        ranges(_LIMITS, ("inferenceConfig",)),
        f"{_REFERENCE}InferenceConfiguration.html",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check("thinking-forced", _thinking, "platform.claude.com, extended thinking", _READ, SETTINGS),
    Check("metadata", _metadata, f"{_MODEL}: RequestMetadata", _READ, SETTINGS),
    Check("field-foreign", _foreign, f"{_ERRORS}: extraneous key", _READ, SETTINGS, WARNING),
    Check("field-unknown", _unknown, _MODEL, _READ, SETTINGS, WARNING),
)
