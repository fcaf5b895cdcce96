"""Rules of Anthropic Messages for messages and tools; ``_anthropic_settings`` has those for settings.

The server joins adjacent messages of one role, so calls and results are paired over joined turns. The rules allow
everything in recorded requests that the server accepted (2025, 2026): a conversation may begin with the assistant, an
answered call id may occur again in a later turn, white space is allowed beside a call, and Claude 3 does not compare an
image with its media type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cannery.dialects.anthropic_messages.models import rules_for
from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded, read_image
from cannery.doctor.json_paths import is_blank, objects, shown
from cannery.doctor.providers import _anthropic_fixes as fixes
from cannery.doctor.providers._anthropic_blocks import (
    Block,
    content_blocks,
    marked_blocks,
    message_blocks,
    of_type,
    turns_of,
)
from cannery.doctor.providers._anthropic_settings import SETTINGS_CHECKS
from cannery.doctor.shared import (
    MB,
    broken_picture,
    drop,
    duplicate_names,
    illegal_names,
    is_fernet,
    is_image,
    lone_surrogates,
    missing,
    replace_surrogates,
    schema_problems,
    size_words,
    too_large,
    union_problems,
)
from cannery.families.claude.models import is_same_family, tier_and_version

_ID = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ROLES = ("user", "assistant", "system")
_MARKS = 4
_REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    "text": {"text": (str,)},
    "image": {"source": (dict,)},
    "document": {"source": (dict,)},
    "tool_use": {"id": (str,), "name": (str,)},
    "tool_result": {"tool_use_id": (str,)},
    "redacted_thinking": {"data": (str,)},
    "thinking": {"thinking": (str,)},
    "search_result": {"source": (str,), "title": (str,), "content": (list,)},
    "server_tool_use": {"id": (str,), "name": (str,)},
}
_SOURCES: dict[str, dict[str, tuple[type, ...]]] = {
    "base64": {"media_type": (str,), "data": (str,)},
    "url": {"url": (str,)},
    "file": {"file_id": (str,)},
    "text": {"media_type": (str,), "data": (str,)},
    "content": {"content": (str, list)},
}
_FEW, _EDGE, _EDGE_OF_MANY = 20, 8000, 2000
_IMAGE_TEXT = 5 * MB
_PLACES = ("user", "system")


# --- messages -------------------------------------------------------------------------------------


def _no_messages(judged: Judged) -> Iterator[Broken]:
    messages = judged.body.get("messages")
    if not isinstance(messages, list):
        yield ("messages",), "messages is required, and a list"
    elif not messages:
        yield ("messages",), "at least one message is required"


def _shapes(judged: Judged) -> Iterator[Broken]:
    for index, message in enumerate(judged.messages):
        path = ("messages", index)
        if not isinstance(message, dict):
            yield path, f"a message is an object, not {shown(message)}"
            continue
        if message.get("role") not in _ROLES:
            yield (
                (*path, "role"),
                f"the role is {shown(message.get('role'))}, not user or assistant",
            )
        content = message.get("content")
        is_directive = message.get("role") == "system" and content is None
        if not isinstance(content, (str, list)) and not is_directive:
            yield (*path, "content"), f"content is text or a list of blocks, not {shown(content)}"
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(block, dict):
                yield (*path, "content", number), f"a block is an object, not {shown(block)}"
            elif not isinstance(block.get("type"), str):
                yield (*path, "content", number, "type"), "type is required in a block"


def _fields(judged: Judged) -> Iterator[Broken]:
    for path, block in content_blocks(judged.body):
        kind = block.get("type")
        if isinstance(kind, str):
            yield from missing(block, _REQUIRED.get(kind, {}), path)
        source = block.get("source")
        if kind in ("image", "document") and isinstance(source, dict):
            form = source.get("type")
            if form not in _SOURCES:
                yield (*path, "source", "type"), f"no source is of the type {shown(form)}"
            else:
                yield from missing(source, _SOURCES[form], (*path, "source"))


def _empty(judged: Judged) -> Iterator[Broken]:
    messages = judged.messages
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        is_final = index == len(messages) - 1 and message.get("role") == "assistant"
        content = message.get("content")
        if not is_final and (content == [] or is_blank(content)):
            yield ("messages", index), "the content is empty"


def _blank(judged: Judged) -> Iterator[Broken]:
    for index, message in enumerate(judged.messages):
        blocks = message_blocks(message, ("messages", index))
        is_spoken = isinstance(message, dict) and message.get("role") == "assistant"
        is_calling = is_spoken and bool(of_type(blocks, "tool_use"))
        for path, block in blocks:
            if path[-1] == "content":
                continue
            # Blank text beside a call was accepted in a recorded request; empty text is refused.
            if (
                block.get("type") == "text"
                and is_blank(block.get("text"))
                and not (is_calling and block.get("text"))
            ):
                yield path, "a text block has no visible character"
    for path, block in objects(judged.body.get("system"), ("system",)):
        if block.get("type") == "text" and is_blank(block.get("text")):
            yield path, "a text block has no visible character"


_MADE = ("tool_use", "server_tool_use", "thinking", "redacted_thinking")
_GIVEN = ("image", "document", "search_result", "tool_result")


def _block_roles(judged: Judged) -> Iterator[Broken]:
    for path, message in objects(judged.messages, ("messages",)):
        for where, block in objects(message.get("content"), (*path, "content")):
            kind, role = block.get("type"), message.get("role")
            if kind in _MADE and role == "user":
                yield where, f"a {kind} block stands in assistant messages only"
            if kind in _GIVEN and role == "assistant":
                yield where, f"a {kind} block stands in user messages only"


# --- calls and results ------------------------------------------------------------------------------


def _unanswered(judged: Judged) -> Iterator[Broken]:
    turns = turns_of(judged.body)
    for index, (role, blocks) in enumerate(turns):
        following = turns[index + 1][1] if index + 1 < len(turns) else []
        results = {block.get("tool_use_id") for _, block in of_type(following, "tool_result")}
        for path, call in of_type(blocks, "tool_use") if role == "assistant" else ():
            if call.get("id") not in results:
                yield path, f"the call {shown(call.get('id'))} has no result in the next user turn"


def _orphans(judged: Judged) -> Iterator[Broken]:
    thread = judged.body.get("thread")
    is_continued = isinstance(thread, dict) and thread.get("type") == "continue"
    turns = turns_of(judged.body)
    for index, (role, blocks) in enumerate(turns):
        if is_continued and not index:
            continue
        before = turns[index - 1][1] if index and role == "user" else []
        expected = {call.get("id") for _, call in of_type(before, "tool_use")}
        for path, block in of_type(blocks, "tool_result"):
            if block.get("tool_use_id") not in expected:
                named = shown(block.get("tool_use_id"))
                yield path, f"a result for {named}, which the assistant turn before does not call"


def _twice(judged: Judged) -> Iterator[Broken]:
    for _, blocks in turns_of(judged.body):
        answered: set[Any] = set()
        for path, block in of_type(blocks, "tool_result"):
            if block.get("tool_use_id") in answered:
                yield path, f"a second result for {shown(block.get('tool_use_id'))}"
            answered.add(block.get("tool_use_id"))


def _late_results(judged: Judged) -> Iterator[Broken]:
    for role, blocks in turns_of(judged.body):
        has_other = False
        for path, block in blocks if role == "user" else ():
            if block.get("type") != "tool_result":
                has_other = True
            elif has_other:
                yield path, "results come before everything else in a user turn"


def _hosted_orphans(judged: Judged) -> Iterator[Broken]:
    for role, blocks in turns_of(judged.body):
        called: set[Any] = set()
        for path, block in blocks:
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use") and role == "assistant":
                called.add(block.get("id"))
            is_result = kind.endswith("_tool_result")
            if is_result and block.get("tool_use_id") not in called:
                yield path, f"{kind} without its server_tool_use earlier in the same turn"


def _illegal_ids(judged: Judged) -> Iterator[Broken]:
    for _, blocks in turns_of(judged.body):
        for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id")):
            named = [((*path, key), block.get(key)) for path, block in of_type(blocks, kind)]
            yield from illegal_names([each for each in named if each[1] is not None], _ID, "id")


def _same_ids(judged: Judged) -> Iterator[Broken]:
    for _, blocks in turns_of(judged.body):
        seen: set[Any] = set()
        for path, block in of_type(blocks, "tool_use"):
            if block.get("id") in seen:
                yield (*path, "id"), f"two calls of one turn have the id {shown(block.get('id'))}"
            seen.add(block.get("id"))


def _illegal_calls(judged: Judged) -> Iterator[Broken]:
    for _, blocks in turns_of(judged.body):
        named = [
            ((*path, "name"), block.get("name")) for path, block in of_type(blocks, "tool_use")
        ]
        yield from illegal_names([each for each in named if each[1] is not None], _NAME)


def _inputs(judged: Judged) -> Iterator[Broken]:
    for _, blocks in turns_of(judged.body):
        for path, block in (*of_type(blocks, "tool_use"), *of_type(blocks, "server_tool_use")):
            if not isinstance(block.get("input"), dict):
                yield (*path, "input"), f"the input is an object, not {shown(block.get('input'))}"


# --- media ------------------------------------------------------------------------------------------


def _images(body: Object) -> list[Block]:
    return [(path, block) for path, block in content_blocks(body) if block.get("type") == "image"]


def _inline(block: Object) -> Object | None:
    source = block.get("source")
    return source if isinstance(source, dict) and source.get("type") == "base64" else None


def _media_types(judged: Judged) -> Iterator[Broken]:
    for path, block in content_blocks(judged.body):
        source = _inline(block)
        declared = source.get("media_type") if source is not None else None
        if block.get("type") == "image" and declared is not None and not is_image(declared):
            yield path, f"{shown(declared)} is not JPEG, PNG, GIF or WebP"
        if block.get("type") == "document" and declared not in (None, "application/pdf"):
            yield path, f"a document in base64 is a PDF, not {shown(declared)}"


def _pictures(code: str) -> Any:
    def find(judged: Judged) -> Iterator[Broken]:
        known = tier_and_version(judged.model)
        compares = known is None or known[1] >= (4, 0)
        for path, block in content_blocks(judged.body):
            source = _inline(block)
            if source is None or block.get("type") not in ("image", "document"):
                continue
            declared = source.get("media_type")
            for found, broken in broken_picture(
                source.get("data"), declared, path, compares=compares
            ):
                if found == code:
                    yield broken

    return find


def _heavy(judged: Judged) -> Iterator[Broken]:
    for path, block in _images(judged.body):
        data = (_inline(block) or {}).get("data")
        if isinstance(data, str) and len(data) > _IMAGE_TEXT:
            yield path, f"the image has {len(data) / MB:.1f} MB in base64; 5 MB are allowed"


def _wide(judged: Judged) -> Iterator[Broken]:
    images = _images(judged.body)
    limit = _EDGE_OF_MANY if len(images) > _FEW else _EDGE
    many = f" in a request with more than {_FEW} images" if len(images) > _FEW else ""
    for path, block in images:
        if (block.get("transformations") or {}).get("oversized_image") == "downsize":
            continue
        picture = read_image((_inline(block) or {}).get("data"))
        if picture.longest > limit:
            yield path, f"the image has {size_words(picture)}; {limit} are allowed{many}"


def _too_many(judged: Judged) -> Iterator[Broken]:
    images = _images(judged.body)
    known = tier_and_version(judged.model)
    limit = 100 if known is not None and known[1] < (4, 6) else 600
    if len(images) > limit:
        yield images[limit][0], f"the request has {len(images)} images; {limit} are allowed"


# --- thinking ---------------------------------------------------------------------------------------


def _thoughts(judged: Judged) -> Iterator[tuple[Any, Block]]:
    for index, message in enumerate(judged.messages):
        for path, block in message_blocks(message, ("messages", index)):
            if block.get("type") in ("thinking", "redacted_thinking"):
                yield message, (path, block)


def _unsigned(judged: Judged) -> Iterator[Broken]:
    for _, (path, block) in _thoughts(judged):
        if block["type"] == "thinking" and not block.get("signature"):
            yield path, "a thinking block without its signature"


def _signatures(judged: Judged) -> Iterator[tuple[Any, Any]]:
    for _, (path, block) in _thoughts(judged):
        signed = block.get("signature") if block["type"] == "thinking" else block.get("data")
        if signed:
            yield path, signed


def _strange_signatures(judged: Judged) -> Iterator[Broken]:
    for path, signed in _signatures(judged):
        if is_fernet(signed):
            yield path, "the signature is an encrypted payload of OpenAI's"
        elif decoded(signed) is None:
            yield path, f"the signature {shown(signed)} is not base64, as Anthropic's are"


# Signatures are base64 of a protocol buffer; every recorded one begins with one of these fields.
_FIRST = (b"\x12", b"\x0a", b"\x1a")


def _odd_signatures(judged: Judged) -> Iterator[Broken]:
    for path, signed in _signatures(judged):
        data = None if is_fernet(signed) else decoded(signed)
        if data is not None and data[:1] not in _FIRST:
            yield path, f"the signature {shown(signed)} does not begin as Anthropic's do"


def _foreign_signatures(judged: Judged) -> Iterator[Broken]:
    target = judged.model
    for message, (path, _) in _thoughts(judged):
        made_by = judged.maker(message)
        if made_by and target and not is_same_family(made_by, target):
            yield path, f"{made_by} signed this thinking block; {target} does not take it"


# --- system messages and cache marks ----------------------------------------------------------------


def _misplaced(judged: Judged) -> Iterator[Broken]:
    roles = [each.get("role") if isinstance(each, dict) else None for each in judged.messages]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        if index == 0 or roles[index - 1] not in _PLACES:
            yield ("messages", index), "a system message goes directly behind a user turn"
        elif index + 1 < len(roles) and roles[index + 1] not in ("assistant", "system"):
            yield ("messages", index), "no user turn may follow a system message"


def _unknown_system(judged: Judged) -> Iterator[Broken]:
    takes_none = tier_and_version(judged.model) and (
        rules_for(judged.model).late_supervisors == "fold"
    )
    for index, message in enumerate(judged.messages if takes_none else ()):
        if isinstance(message, dict) and message.get("role") == "system":
            yield ("messages", index), f"{judged.model} takes no system message among the others"


def _marks(judged: Judged) -> Iterator[Broken]:
    marked = marked_blocks(judged.body)
    for path, _ in marked[: max(0, len(marked) - _MARKS)]:
        yield (*path, "cache_control"), f"{len(marked)} cache marks; {_MARKS} are allowed"


def _mark_order(judged: Judged) -> Iterator[Broken]:
    has_short = False
    for path, block in marked_blocks(judged.body):
        ttl = block["cache_control"].get("ttl") or "5m"
        if ttl == "1h" and has_short:
            yield (
                (*path, "cache_control", "ttl"),
                "a cache mark of one hour follows one of 5 minutes",
            )
        has_short = has_short or ttl == "5m"


def _mark_places(judged: Judged) -> Iterator[Broken]:
    for path, block in marked_blocks(judged.body):
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield (*path, "cache_control"), "a thinking block takes no cache mark"
        if block.get("type") == "text" and not block.get("text"):
            yield (*path, "cache_control"), "empty text takes no cache mark"


# --- tools ------------------------------------------------------------------------------------------


def _tool_names(judged: Judged) -> list[tuple[Any, Any]]:
    tools = objects(judged.body.get("tools"), ("tools",))
    return [((*path, "name"), tool["name"]) for path, tool in tools if "name" in tool]


def _illegal_tools(judged: Judged) -> Iterator[Broken]:
    yield from illegal_names(_tool_names(judged), _NAME)


def _same_tools(judged: Judged) -> Iterator[Broken]:
    for path, text in duplicate_names(_tool_names(judged)):
        yield path[:-1], text


def _custom_tools(judged: Judged) -> Iterator[Block]:
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("type") in (None, "custom"):
            yield path, tool


def _tool_fields(judged: Judged) -> Iterator[Broken]:
    for path, tool in _custom_tools(judged):
        yield from missing(tool, {"name": (str,), "input_schema": (dict,)}, path)


def _schemas(judged: Judged) -> Iterator[Broken]:
    for path, tool in _custom_tools(judged):
        where = (*path, "input_schema")
        if isinstance(tool.get("input_schema"), dict):
            yield from schema_problems(tool["input_schema"], where, needs_type=True)


def _unions(judged: Judged) -> Iterator[Broken]:
    for path, tool in _custom_tools(judged):
        yield from union_problems(tool.get("input_schema"), (*path, "input_schema"))


_API = "https://platform.claude.com/docs/en/api/messages"
_TOOLS = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use"
_VISION = "https://platform.claude.com/docs/en/build-with-claude/vision"
_THINKING = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
_CACHE = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_SYSTEM = "https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages"
_READ = "2026-11-15"
_NOW = "2026-11-18"

CHECKS: tuple[Check, ...] = (
    Check(
        "surrogate",
        lone_surrogates,
        "server error 'no low surrogate in string' (anthropics/claude-code#60394)",
        _NOW,
        fix=replace_surrogates,
    ),
    Check(
        "request-size", too_large(32 * MB), f"{_API.removesuffix('messages')}errors", _NOW, SETTINGS
    ),
    Check("messages-missing", _no_messages, _API, _READ, SETTINGS),
    Check("shape", _shapes, _API, _READ),
    Check("field-missing", _fields, "types of anthropic 2.8.0", _READ),
    Check(
        "block-role",
        _block_roles,
        "server error '`tool_use` blocks can only be in assistant messages'",
        _READ,
    ),
    Check("id-charset", _illegal_ids, _TOOLS, _READ, fix=fixes.rename_id),
    Check("id-duplicate", _same_ids, "server error 'tool_use ids must be unique'", _READ),
    Check("name-charset", _illegal_calls, _TOOLS, _READ, fix=fixes.rename_call),
    Check("input-object", _inputs, _TOOLS, _READ, fix=fixes.wrap_input),
    Check("result-duplicate", _twice, _TOOLS, _READ, fix=fixes.drop_block),
    Check("result-orphan", _orphans, _TOOLS, _READ, fix=fixes.say_result),
    Check("results-first", _late_results, _TOOLS, _READ, fix=fixes.move_result),
    Check("call-unanswered", _unanswered, _TOOLS, _READ, fix=fixes.answer_call),
    Check("server-result-orphan", _hosted_orphans, _API, _READ, fix=fixes.drop_block),
    Check("media-type", _media_types, _VISION, _NOW, fix=fixes.replace_media),
    Check("base64", _pictures("base64"), _VISION, _NOW, fix=fixes.replace_media),
    Check(
        "media-mismatch",
        _pictures("media-mismatch"),
        "server error 'image was specified using the image/png media type'",
        _READ,
        fix=fixes.correct_media_type,
    ),
    Check(
        "image-bytes",
        _heavy,
        "server error 'image exceeds 5 MB maximum', measured on the base64 text; Claude Code 2.1 has the same limit",
        _NOW,
        fix=fixes.replace_media,
    ),
    Check(
        "image-pixels",
        _wide,
        f"{_VISION}; server error in anthropics/claude-code#49537",
        _NOW,
        fix=fixes.replace_media,
    ),
    Check("image-count", _too_many, _VISION, _NOW),
    Check(
        "signature-missing",
        _unsigned,
        f"{_THINKING}; openclaw/openclaw#120596",
        _NOW,
        fix=fixes.drop_block,
    ),
    Check("signature-shape", _strange_signatures, _THINKING, _NOW, fix=fixes.drop_block),
    Check("signature-odd", _odd_signatures, "451 recorded requests", _NOW, severity=WARNING),
    Check(
        "signature-model",
        _foreign_signatures,
        f"{_THINKING}; server error in openclaw/openclaw#107221",
        _NOW,
        fix=fixes.drop_block,
    ),
    Check("system-model", _unknown_system, _SYSTEM, _NOW, fix=fixes.fold_system),
    Check("system-place", _misplaced, _SYSTEM, _NOW, fix=fixes.fold_system),
    Check("cache-place", _mark_places, _CACHE, _READ, fix=drop),
    Check("blank-text", _blank, _API, _READ, fix=fixes.drop_block),
    Check("empty", _empty, _API, _READ, fix=fixes.drop_message),
    Check("cache-marks", _marks, _CACHE, _READ, fix=drop),
    Check("cache-order", _mark_order, _CACHE, _READ, fix=drop),
    Check("tool-fields", _tool_fields, _TOOLS, _READ, SETTINGS),
    Check("tool-name", _illegal_tools, _TOOLS, _READ, SETTINGS, fix=fixes.rename_tool),
    Check(
        "tool-duplicate",
        _same_tools,
        "server error 'tools: Tool names must be unique.'",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check("schema-type", _schemas, _TOOLS, _READ, SETTINGS, fix=fixes.name_object),
    Check(
        "schema-union",
        _unions,
        "server error 'input_schema does not support oneOf, allOf, or anyOf at the top level' "
        "(anthropics/claude-code#40075)",
        _NOW,
        SETTINGS,
    ),
    *SETTINGS_CHECKS,
)
