"""The judge of Bedrock Converse: the service model and the parsers of botocore 1.44, and what the server refuses.

The model has no types for Python, so they are made of its shapes here: a union is one of several objects with one key.
Rules: the API reference and the user guide of AWS (read 2026-11-18), patterns and limits of the model, and quoted
errors. Recorded requests that the server took (2025, 2026) bound them: names of documents may have underscores, a
conversation may begin with the assistant or have two messages of a user in a row, and white space may stand beside
words. The model is in the path, so that ``modelId`` is a key that boto3 takes and the wire does not have.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, Union

import botocore.session
import typing_extensions as te
from botocore import parsers
from botocore.eventstream import EventStream, EventStreamBuffer

from tests.oracles.judge import Accumulated, Body, Judge
from tests.oracles.leaf import Leaf, call, inline
from tests.oracles.rules.findings import (
    decode,
    finding,
    in_range,
    is_blank,
    media_matches,
    names_are_legal,
    names_are_unique,
    objects,
    walk,
)
from tests.oracles.sse import Frame
from tests.oracles.typecheck import Walker
from tests.strategies import bedrock_bodies

_SERVICE = botocore.session.get_session().get_service_model("bedrock-runtime")
_CONVERSE = _SERVICE.operation_model("Converse")
_STREAM = _SERVICE.operation_model("ConverseStream").output_shape.members["stream"]
_SCALARS: dict[str, Any] = {
    "blob": bytes,
    "boolean": bool,
    "double": float,
    "float": float,
    "integer": int,
    "long": int,
    "string": str,
}


# Types that stand for shapes of these names.
_NAMED: dict[str, Any] = {}


@cache
def _typed(shape: Any) -> Any:
    """A shape of the service model as a type."""
    if shape.name in _NAMED:
        return _NAMED[shape.name]
    match shape.type_name:
        case "structure" if shape.is_document_type:
            return Any
        case "structure" if shape.is_tagged_union or "eventstream" in shape.serialization:
            return Union[  # noqa: UP007 - a union made when the program runs
                tuple(
                    te.TypedDict(f"{shape.name}_{key}", {key: _typed(member)})  # type: ignore[operator, misc]
                    for key, member in shape.members.items()
                )
            ]
        case "structure":
            needed = shape.required_members
            fields = {
                key: te.Required[_typed(member)]
                if key in needed
                else te.NotRequired[_typed(member)]
                for key, member in shape.members.items()
            }
            return te.TypedDict(shape.name, fields)  # type: ignore[operator]
        case "list":
            return list[_typed(shape.member)]  # type: ignore[misc]
        case "map":
            return dict[str, _typed(shape.value)]  # type: ignore[misc]
        case "string" if shape.enum:
            return Literal[tuple(shape.enum)]
    return _SCALARS[shape.type_name]


def _request_type(*, is_drawn: bool = False) -> Any:
    """The body of a request: boto3's arguments, of which the model is none on the wire.

    In bodies that are drawn, documents rarely have the same name: one that is lost would hide behind its namesake.
    """
    shape = _CONVERSE.input_shape
    _typed.cache_clear()
    if is_drawn:
        _NAMED["DocumentBlockNameString"] = Literal[tuple(f"doc {n}" for n in range(1000))]
    fields = {key: _typed(member) for key, member in shape.members.items()}
    _NAMED.clear()
    fields |= {"messages": te.Required[fields["messages"]]}
    return te.TypedDict("ConverseRequest", fields, total=False)  # type: ignore[operator]


# --- rules -------------------------------------------------------------------------------------

_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DOCUMENT_NAME = re.compile(r"[A-Za-z0-9_()\[\]-]+(?: [A-Za-z0-9_()\[\]-]+)*")
_MOST_MARKS = 4
_OF_USERS = ("image", "document", "video", "audio", "searchResult")


def rules(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    messages = objects(body.get("messages"))
    if not messages:
        yield finding("$.messages", "empty", "at least one message is required")
    yield from _roles(messages)
    yield from _pairing(messages)
    for index, message in enumerate(messages):
        path = f"$.messages[{index}].content"
        content = objects(message.get("content"))
        if not content:
            yield finding(path, "empty", "the content is empty")
        if all(is_blank(block.get("text")) for block in content) and content:
            yield finding(path, "blank-text", "the content is blank")
        if message.get("role") != "user" and any(
            key in block for block in content for key in _OF_USERS
        ):
            yield finding(path, "media-role", "only users show media")
        if any("document" in block for block in content) and not any("text" in b for b in content):
            yield finding(path, "document-alone", "a document needs text beside it")
    yield from _blocks(body)
    yield from _tools(body, messages)
    yield from _controls(body)


def _roles(messages: list[Body]) -> Iterator[str]:
    roles = [str(message.get("role")) for message in messages]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        if index == 0 or roles[index - 1] == "assistant":
            yield finding(f"$.messages[{index}]", "system-place", "system follows a user message")
        if roles[index + 1 : index + 2] == ["user"]:
            yield finding(f"$.messages[{index}]", "system-place", "no user message follows system")


def _held(message: Body, key: str) -> list[tuple[int, Body]]:
    """The calls or results of a message that are not the server's own."""
    return [
        (index, block[key])
        for index, block in enumerate(objects(message.get("content")))
        if isinstance(block.get(key), dict) and block[key].get("type") in (None, "tool_use")
    ]


def _pairing(messages: list[Body]) -> Iterator[str]:
    spoken = [(at, m) for at, m in enumerate(messages) if m.get("role") != "system"]
    for place, (at, message) in enumerate(spoken):
        before = spoken[place - 1][1] if place else {}
        behind = spoken[place + 1][1] if place + 1 < len(spoken) else {}
        answered = [result.get("toolUseId") for _, result in _held(behind, "toolResult")]
        for index, made in _held(message, "toolUse"):
            if message.get("role") == "assistant" and made.get("toolUseId") not in answered:
                where = f"$.messages[{at}].content[{index}]"
                yield finding(where, "call-unanswered", f"{made.get('toolUseId')!r}: no result")
        expected = {made.get("toolUseId") for _, made in _held(before, "toolUse")}
        seen: set[Any] = set()
        for index, result in _held(message, "toolResult"):
            where, identifier = f"$.messages[{at}].content[{index}]", result.get("toolUseId")
            if identifier not in expected:
                yield finding(where, "result-orphan", f"no call {identifier!r} before it")
            if identifier in seen:
                yield finding(where, "result-duplicate", f"{identifier!r} is answered twice")
            seen.add(identifier)


def _content(body: Body) -> Iterator[tuple[str, Body]]:
    """Blocks at any depth, but not inside of inputs and JSON."""
    for key in ("system", "messages"):
        for path, block in walk(body.get(key), f"$.{key}"):
            if ".input" not in path and ".json" not in path:
                yield path, block


def _blocks(body: Body) -> Iterator[str]:
    names: list[tuple[str, Any]] = []
    for path, block in _content(body):
        if re.search(r"(content|system)\[\d+\]$", path) and block.get("text") == "":
            yield finding(path, "blank-text", "the text field is empty")
        for key, pattern, code in (
            ("toolUse", _ID, "id-charset"),
            ("toolResult", _ID, "id-charset"),
        ):
            held = block.get(key)
            if isinstance(held, dict):
                yield from names_are_legal(
                    [(f"{path}.{key}", held.get("toolUseId"))], pattern, code
                )
                if key == "toolUse":
                    yield from names_are_legal([(f"{path}.{key}", held.get("name"))], _NAME)
                    if not isinstance(held.get("input"), dict):
                        yield finding(f"{path}.{key}.input", "input-object", "must be an object")
        if isinstance(block.get("document"), dict):
            names.append((f"{path}.document.name", block["document"].get("name")))
        yield from _bytes(block, path)
    yield from names_are_legal(names, _DOCUMENT_NAME, "document-name")
    yield from (one.replace("name-duplicate", "document-twice") for one in names_are_unique(names))


def _bytes(block: Body, path: str) -> Iterator[str]:
    for kind in ("image", "document", "video", "audio"):
        held = block.get(kind)
        source = held.get("source") if isinstance(held, dict) else None
        if not isinstance(source, dict) or "bytes" not in source:
            continue
        payload = decode(source["bytes"])
        if not payload:
            yield finding(f"{path}.{kind}", "base64", "no base64, or empty")
        elif kind == "image":
            yield from media_matches(f"{path}.image", f"image/{held['format']}", payload)


def _tools(body: Body, messages: list[Body]) -> Iterator[str]:
    config = body.get("toolConfig")
    tools = objects(config.get("tools")) if isinstance(config, dict) else []
    uses = any(_held(message, key) for message in messages for key in ("toolUse", "toolResult"))
    if uses and not tools:
        yield finding("$.toolConfig", "tools-missing", "toolConfig is required beside tool blocks")
    specs = [
        (f"$.toolConfig.tools[{index}]", tool["toolSpec"])
        for index, tool in enumerate(tools)
        if isinstance(tool.get("toolSpec"), dict)
    ]
    named = [(path, spec.get("name")) for path, spec in specs]
    yield from names_are_legal(named, _NAME)
    yield from names_are_unique(named)
    for path, spec in specs:
        if spec.get("description") == "":
            yield finding(path, "description-empty", "a description is not empty")
        schema = (spec.get("inputSchema") or {}).get("json")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield finding(path, "schema-object", "the type of a schema must be object")
    choice = config.get("toolChoice") if isinstance(config, dict) else None
    if isinstance(choice, dict) and isinstance(choice.get("tool"), dict):
        known = {name for _, name in named} | {
            tool["systemTool"].get("name") for tool in tools if "systemTool" in tool
        }
        if choice["tool"].get("name") not in known:
            yield finding("$.toolConfig.toolChoice", "tool-choice", "the tool is not declared")
    marks = [path for path, block in [*_content(body), *walk(tools)] if "cachePoint" in block]
    if len(marks) > _MOST_MARKS:
        yield finding(marks[_MOST_MARKS], "cache-marks", f"{len(marks)} cache points")


def _controls(body: Body) -> Iterator[str]:
    inference = body.get("inferenceConfig")
    if isinstance(inference, dict):
        yield from in_range(inference, "temperature", 0, 1, "$.inferenceConfig")
        yield from in_range(inference, "topP", 0, 1, "$.inferenceConfig")
        yield from in_range(inference, "maxTokens", 1, 1_000_000, "$.inferenceConfig")
        for text in inference.get("stopSequences") or ():
            if not text:
                yield finding("$.inferenceConfig.stopSequences", "stop-empty", "an empty one")
    metadata = body.get("requestMetadata")
    if isinstance(metadata, dict) and len(metadata) > 16:
        yield finding("$.requestMetadata", "metadata", "more than 16 pairs")
    more = body.get("additionalModelRequestFields")
    thinking = more.get("thinking") if isinstance(more, dict) else None
    if isinstance(thinking, dict) and thinking.get("type") == "enabled":
        choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
        if "any" in choice or "tool" in choice:
            yield finding("$.toolConfig", "thinking-forced", "thinking takes no forced tool")


# --- leaves ------------------------------------------------------------------------------------


def leaves(body: Body) -> Iterator[Leaf]:
    """Every leaf of a request body."""
    for index, block in enumerate(objects(body.get("system"))):
        yield from _leaves(block, "system", f"$.system[{index}]")
    for at, message in enumerate(objects(body.get("messages"))):
        kind = "system" if message.get("role") == "system" else "text"
        for index, block in enumerate(objects(message.get("content"))):
            yield from _leaves(block, kind, f"$.messages[{at}].content[{index}]")


def _leaves(block: Body, kind: str, path: str) -> Iterator[Leaf]:
    for key, held in block.items():
        if key == "cachePoint":
            return
        if key == "text" and isinstance(held, str):
            if held:
                yield Leaf(kind, held, f"{path}.text")
        elif key in _WALKERS and isinstance(held, dict):
            yield from _WALKERS[key](held, kind, f"{path}.{key}")
        else:
            yield Leaf("opaque", block, path)


def _medium(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    yield from _media(held.get("source") or {}, path)


def _search_result(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    for name in ("title", "source"):
        if held.get(name):
            yield Leaf("document", held[name], f"{path}.{name}")
    yield from _texts(held.get("content"), "document", f"{path}.content")


def _made(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    if held.get("type") in (None, "tool_use"):
        yield call(held.get("name"), held.get("input"), path)
    else:
        yield Leaf("hosted", {"toolUse": held}, path)


def _answered(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    if "type" in held:
        yield Leaf("hosted", {"toolResult": held}, path)
        return
    for index, each in enumerate(objects(held.get("content"))):
        where = f"{path}.content[{index}]"
        if "json" in each:
            yield Leaf("result", each["json"], where)
        else:
            yield from _leaves(each, "result", where)


def _thought(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    thought = held.get("reasoningText") or {}
    if thought.get("text"):
        yield Leaf("reasoning", thought["text"], path)
    for sealed in (thought.get("signature"), held.get("redactedContent")):
        if sealed:
            yield Leaf("signature", sealed, path)


def _cited(held: Body, kind: str, path: str) -> Iterator[Leaf]:
    yield from _texts(held.get("content"), kind, f"{path}.content")


def _guarded(held: Body, kind: str, path: str) -> Iterator[Leaf]:
    text = held.get("text")
    if isinstance(text, dict) and text.get("text"):
        yield Leaf(kind, text["text"], path)
    image = held.get("image")
    if isinstance(image, dict):
        yield from _media(image.get("source") or {}, path)


def _texts(pieces: Any, kind: str, path: str) -> Iterator[Leaf]:
    for index, piece in enumerate(objects(pieces)):
        if piece.get("text"):
            yield Leaf(kind, piece["text"], f"{path}[{index}]")


def _media(source: Body, path: str, mime_type: str | None = None) -> Iterator[Leaf]:
    if "bytes" in source:
        yield inline(source["bytes"], path, mime_type)
    elif isinstance(source.get("s3Location"), dict):
        yield Leaf("media", f"url:{source['s3Location'].get('uri')}", path)


def _document(held: Body, _kind: str, path: str) -> Iterator[Leaf]:
    source = held.get("source") or {}
    for key in ("name", "context"):
        if held.get(key):
            yield Leaf("document", held[key], f"{path}.{key}")
    if source.get("text"):
        yield Leaf("document", source["text"], f"{path}.source")
    yield from _texts(source.get("content"), "document", f"{path}.source.content")
    is_text = held.get("format") in ("txt", "md", "csv", "html")
    yield from _media(source, path, "text/plain" if is_text else None)


_WALKERS: dict[str, Callable[[Body, str, str], Iterator[Leaf]]] = {
    **dict.fromkeys(("image", "video", "audio"), _medium),
    "document": _document,
    "searchResult": _search_result,
    "toolUse": _made,
    "toolResult": _answered,
    "reasoningContent": _thought,
    "citationsContent": _cited,
    "guardContent": _guarded,
}


def as_history(body: Body) -> Body:
    """An answer as a request that has it for its history."""
    return {"messages": [(body.get("output") or {}).get("message") or {}]}


def as_history_path(path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    return re.sub(r"^output\.message\b", "messages[0]", path)


# --- streams -----------------------------------------------------------------------------------


class _Raw:
    """A body as botocore reads it."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def stream(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        """There is nothing to close."""


def frames(transcript: bytes) -> list[Frame]:
    """The messages of a stream, each as an object that is keyed by its event; ``p`` is padding."""
    buffer = EventStreamBuffer()
    buffer.add_data(transcript)
    found = []
    for message in buffer:
        name = message.headers.get(":event-type") or message.headers.get(":exception-type")
        payload = json.loads(message.payload)
        payload.pop("p", None)
        found.append(Frame(name, json.dumps({name: payload})))
    return found


def parse_stream(chunks: list[bytes]) -> Accumulated:
    """The events as botocore reads them; an exception is raised."""
    parser = parsers.EventStreamJSONParser()
    stream = EventStream(_Raw(chunks), _STREAM, parser, "ConverseStream")
    events = [json.loads(json.dumps(event, default=_spelled)) for event in stream]
    if not any("messageStop" in event for event in events):
        raise ValueError("the stream does not end")
    return Accumulated(_fold([frame.value for frame in frames(b"".join(chunks))]), events)


def _spelled(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _fold(events: list[Body]) -> Body:
    """The whole answer of a stream."""
    blocks: dict[int, Body] = {}
    body: Body = {}
    for event in events:
        name, value = next(iter(event.items()))
        if name == "contentBlockStart":
            blocks[value["contentBlockIndex"]] = {
                key: {**held, **({"input": ""} if key == "toolUse" else {})}
                for key, held in value["start"].items()
            }
        elif name == "contentBlockDelta":
            _grow(blocks.setdefault(value["contentBlockIndex"], {}), value["delta"])
        elif name in ("messageStop", "metadata"):
            body |= value
    content = [_closed(blocks[index]) for index in sorted(blocks)]
    return {**body, "output": {"message": {"role": "assistant", "content": content}}}


def _grow(block: Body, delta: Body) -> None:
    match delta:
        case {"text": str(text)}:
            block["text"] = block.get("text", "") + text
        case {"citation": citation}:
            block.setdefault("citations", []).append(citation)
        case {"toolUse": {"input": str(text)}}:
            block["toolUse"]["input"] += text
        case {"toolResult": [*pieces]}:
            block["toolResult"].setdefault("content", []).extend(pieces)
        case {"reasoningContent": {"redactedContent": sealed}}:
            block["reasoningContent"] = {"redactedContent": sealed}
        case {"reasoningContent": {**thought}}:
            held = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})
            for key, text in thought.items():
                held["reasoningText"][key] = held["reasoningText"].get(key, "") + text
        case {"image": {**more}}:
            block["image"] |= more


def _closed(block: Body) -> Body:
    if "toolUse" in block:
        spelled = block["toolUse"]["input"]
        return {"toolUse": {**block["toolUse"], "input": json.loads(spelled or "{}")}}
    if "citations" in block:
        content = [{"text": block.get("text", "")}]
        return {"citationsContent": {"content": content, "citations": block["citations"]}}
    return block


def parse_whole(chunks: list[bytes]) -> Body:
    """A whole answer that botocore reads; it leaves out what it does not know."""
    body = b"".join(chunks)
    parsers.create_parser("rest-json").parse(
        {"status_code": 200, "headers": {}, "body": body}, _CONVERSE.output_shape
    )
    found: Body = json.loads(body)
    return found


def stream_rules(found: list[Frame]) -> Iterator[str]:
    """The order of events."""
    names = [str(frame.event) for frame in found]
    if names[-1].endswith("Exception"):
        return
    if names[0] != "messageStart" or names[-2:] != ["messageStop", "metadata"]:
        yield finding("$", "order", "messageStart first, messageStop and metadata last")
    opened: int | None = None
    last = -1
    for number, frame in enumerate(found):
        value = frame.value[frame.event]
        index = value.get("contentBlockIndex")
        if index is None:
            continue
        if opened is None and (index != last + 1 or frame.event == "contentBlockStop"):
            yield finding(f"frame[{number}]", "index", f"block {index} behind {last}")
        if opened is not None and (index != opened or frame.event == "contentBlockStart"):
            yield finding(f"frame[{number}]", "overlap", f"block {index} within {opened}")
        opened = None if frame.event == "contentBlockStop" else index
        last = index


def around_stream(events: list[Body]) -> Body:
    """What the events say around the answer."""
    found: Body = {}
    for event in events:
        for name in ("messageStop", "metadata"):
            found |= event.get(name, {})
    return found


def around_whole(body: Body) -> Body:
    """The same of a whole answer."""
    return {key: item for key, item in body.items() if key != "output"}


def error(_status: int, message: str) -> Body:
    """An error as the server writes it."""
    return {"message": message}


JUDGE = Judge(
    dialect="bedrock_converse",
    walker=Walker(),
    drawn_request=_request_type(is_drawn=True),
    request=_request_type(),
    response=_typed(_CONVERSE.output_shape),
    chunk=_typed(_STREAM),
    rules=rules,
    leaves=leaves,
    as_history=as_history,
    as_history_path=as_history_path,
    parse_stream=parse_stream,
    parse_whole=parse_whole,
    stream_rules=stream_rules,
    around_stream=around_stream,
    around_whole=around_whole,
    draw_request=bedrock_bodies.request,
    draw_response=bedrock_bodies.response,
    error=error,
    host="bedrock-runtime",
    path="/model/{model}/converse",
    unconfirmed=frozenset({"name-duplicate", "document-twice", "cache-marks"}),
    frames=frames,
)
