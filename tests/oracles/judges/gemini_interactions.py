"""The judge of Interactions: google-genai 3.3.0's types and parser, and what its server is known to refuse.

Exceptions from the plain types, each with its reason: what a function answers is any object, for which the SDK has a
type without fields; types of media and models are open, and so is the summary of a tool that Google runs. Of an answer
``object`` is on the wire (recorded in 2026-05 and 2026-06) and not in the type; ``output_text`` and its like are made
by the SDK.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, Optional, Union, get_args

import httpx2
import pydantic
from google import genai
from google.genai import interactions as sdk
from google.genai import types as gemini

from tests.oracles.judge import Accumulated, Body, Judge
from tests.oracles.leaf import Leaf, call, inline, located
from tests.oracles.rules.findings import (
    finding,
    is_blank,
    names_are_legal,
    names_are_unique,
    objects,
)
from tests.oracles.sse import Frame, frames
from tests.oracles.typecheck import Walker
from tests.strategies import interactions_bodies

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_LEFT_OUT = frozenset(
    {
        *("UnrecognizedStr", "UnrecognizedInt", "FunctionResultStepResult"),
        *("MCPServerToolResultStepResult", "FunctionResultDeltaResult"),
        *("UnknownStep", "UnknownContent", "UnknownAnnotation", "UnknownTool"),
        *("UnknownThoughtSummaryContent", "UnknownFunctionResultSubcontent"),
        *("UnknownStepDeltaData", "UnknownInteractionSSEEvent"),
    }
)
# The UP rules ask for a form that pydantic cannot read at run time in the SDK's own models.
Text = sdk.TextContent


class Image(sdk.ImageContent):
    """An image of any type."""

    mime_type: Optional[str] = None  # noqa: UP045


class Audio(sdk.AudioContent):
    """Sound of any type."""

    mime_type: Optional[str] = None  # noqa: UP045


class Video(sdk.VideoContent):
    """A video of any type."""

    mime_type: Optional[str] = None  # noqa: UP045


class Document(sdk.DocumentContent):
    """A document of any type."""

    mime_type: Optional[str] = None  # noqa: UP045


Content = Union[Text, Image, Audio, Video, Document]  # noqa: UP007 - the form of the SDK
Result = Union[str, list[Content], dict[str, Any]]  # noqa: UP007


class UserInput(sdk.UserInputStep):
    """What a user says."""

    content: Optional[list[Content]] = None  # noqa: UP045


class ModelOutput(sdk.ModelOutputStep):
    """What the model says."""

    content: Optional[list[Content]] = None  # noqa: UP045


class CallStep(sdk.FunctionCallStep):
    """A call; live servers sign some."""

    signature: Optional[str] = None  # noqa: UP045


class ResultStep(sdk.FunctionResultStep):
    """What a function answers."""

    result: Result


class McpResult(sdk.MCPServerToolResultStep):
    """What a tool of a server answers."""

    result: Result


class FileSearchStep(sdk.FileSearchResultStep):
    """What was found in files; its type has no room for it."""

    result: Optional[list[dict[str, Any]]] = None  # noqa: UP045


Step = Union[  # noqa: UP007
    UserInput,
    ModelOutput,
    CallStep,
    ResultStep,
    McpResult,
    FileSearchStep,
    sdk.ThoughtStep,
    sdk.CodeExecutionCallStep,
    sdk.CodeExecutionResultStep,
    sdk.FileSearchCallStep,
    sdk.GoogleMapsCallStep,
    sdk.GoogleMapsResultStep,
    sdk.GoogleSearchCallStep,
    sdk.GoogleSearchResultStep,
    sdk.MCPServerToolCallStep,
    sdk.ProcessingCallStep,
    sdk.ProcessingResultStep,
    sdk.RetrievalCallStep,
    sdk.RetrievalResultStep,
    sdk.URLContextCallStep,
    sdk.URLContextResultStep,
]


class Request(sdk.CreateModelInteraction):
    """The body of ``/interactions`` for a model."""

    model: str
    input: Optional[Union[str, Content, list[Step], list[Content]]] = None  # noqa: UP007, UP045
    response_format: Optional[  # noqa: UP045
        Union[sdk.TextResponseFormat, list[sdk.TextResponseFormat], dict[str, Any]]  # noqa: UP007
    ] = None


class Response(sdk.Interaction):
    """A whole answer."""

    id: str
    model: Optional[str] = None  # noqa: UP045
    object: Optional[Literal["interaction"]] = None  # noqa: UP045
    steps: Optional[list[Step]] = None  # noqa: UP045
    input: Optional[Any] = None  # noqa: UP045
    response_format: Optional[Any] = None  # noqa: UP045


class DrawnAnswer(pydantic.BaseModel):
    """What bodies of answers are drawn from."""

    id: str
    status: Literal["completed", "requires_action", "incomplete", "failed", "in_progress"]
    object: Literal["interaction"]
    model: str
    created: Optional[str] = None  # noqa: UP045
    steps: Optional[list[Step]] = None  # noqa: UP045
    usage: Optional[sdk.Usage] = None  # noqa: UP045
    service_tier: Optional[Literal["standard", "flex"]] = None  # noqa: UP045


class Delta(sdk.StepDelta):
    """More of a step; recorded streams tell usage in ``metadata.usage``, too."""

    delta: dict[str, Any]
    metadata: Optional[dict[str, Any]] = None  # noqa: UP045


class Created(sdk.InteractionCreatedEvent):
    """The answer begins."""

    metadata: Optional[dict[str, Any]] = None  # noqa: UP045


class Start(sdk.StepStart):
    """A step begins; it may lack what its deltas say."""

    step: dict[str, Any]


Event = Union[  # noqa: UP007
    Created,
    sdk.InteractionCompletedEvent,
    sdk.InteractionStatusUpdate,
    Start,
    Delta,
    sdk.StepStop,
    sdk.ErrorEvent,
]


_TOOLS = (
    *(sdk.Function, sdk.CodeExecution, sdk.URLContext, sdk.ComputerUse, sdk.MCPServer),
    *(sdk.GoogleSearch, sdk.FileSearch, sdk.GoogleMaps, sdk.Retrieval),
)


# --- what the server refuses ---------------------------------------------------------------------


def rules(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    if not body.get("model") and not body.get("agent"):
        yield finding("$.model", "model", "a model or an agent is required")
    given = body.get("input")
    if given in (None, "", []) and not body.get("continuation_token"):
        yield finding("$.input", "empty", "an input is required")
    listed = given if isinstance(given, list) else [given] if isinstance(given, dict) else []
    for index, item in enumerate(objects(listed)):
        yield from _item(item, f"$.input[{index}]")
    steps = [item for item in objects(listed) if "content" in item or _is_step(item)]
    if steps and any(item.get("type") in _CONTENTS for item in objects(listed)):
        yield finding("$.input", "mixed", "steps or contents, not both")
    if steps and not body.get("previous_interaction_id"):
        yield from _pairing(steps)
    if steps and steps[-1].get("type") in ("model_output", "thought"):
        yield finding("$.input[-1]", "ends-on-model", "history must not end on a model turn")
    yield from _tools(body)


def _is_step(item: Body) -> bool:
    kind = str(item.get("type"))
    return kind == "thought" or kind.endswith(("_call", "_result", "_input", "_output"))


def _item(item: Body, path: str) -> Iterator[str]:
    kind = item.get("type")
    if kind is None:
        yield finding(path, "type", "a type is required")
    if kind in ("user_input", "model_output"):
        if not item.get("content"):
            yield finding(path, "empty", "a content is required")
        for index, content in enumerate(objects(item.get("content"))):
            yield from _content(content, f"{path}.content[{index}]")
    elif kind == "function_call":
        yield from names_are_legal([(path, item.get("name"))], _NAME)
    elif kind == "function_result":
        for index, content in enumerate(objects(item.get("result"))):
            yield from _content(content, f"{path}.result[{index}]", is_result=True)
    elif not _is_step(item):
        yield from _content(item, path)


def _content(content: Body, path: str, *, is_result: bool = False) -> Iterator[str]:
    if content.get("type") == "text":
        if is_blank(content.get("text")) and not is_result:
            yield finding(path, "text-blank", "text must have a visible character")
        return
    if content.get("type") not in _CONTENTS:
        return
    if ("data" in content) == ("uri" in content):
        yield finding(path, "media-source", "exactly one of data and uri")
    if "data" in content:
        if not content.get("mime_type"):
            yield finding(f"{path}.mime_type", "media-type", "a media type is required")
        if not _is_base64(content["data"]):
            yield finding(f"{path}.data", "base64", "the data is no base64")


def _is_base64(data: Any) -> bool:
    try:
        return bool(base64.b64decode(str(data).translate(str.maketrans("-_", "+/")) + "==="))
    except (binascii.Error, ValueError):
        return False


def _pairing(steps: list[Body]) -> Iterator[str]:
    """Every call is answered once before anybody speaks again, and every result has its call."""
    open_calls: list[Any] = []
    for index, step in enumerate(steps):
        kind, path = step.get("type"), f"$.input[{index}]"
        if kind == "function_call":
            open_calls.append(step.get("id"))
        elif kind == "function_result":
            if step.get("call_id") not in open_calls:
                yield finding(path, "result-orphan", "a result without a call before it")
            else:
                open_calls.remove(step.get("call_id"))
        elif kind == "user_input" and open_calls:
            yield finding(path, "call-unanswered", f"calls without results: {open_calls}")
            open_calls = []
    if open_calls:
        yield finding("$.input[-1]", "call-unanswered", f"calls without results: {open_calls}")


def _tools(body: Body) -> Iterator[str]:
    named = [
        (f"$.tools[{index}]", tool.get("name"))
        for index, tool in enumerate(objects(body.get("tools")))
        if tool.get("type") == "function"
    ]
    yield from names_are_legal(named, _NAME)
    yield from names_are_unique(named)
    config = body.get("generation_config") or {}
    choice = config.get("tool_choice")
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    for name in (allowed or {}).get("tools") or ():
        if name not in [each for _, each in named]:
            yield finding("$.generation_config.tool_choice", "tool-choice", f"no tool {name!r}")
    if len(config.get("stop_sequences") or ()) > 5:
        yield finding("$.generation_config.stop_sequences", "stop-limit", "at most 5 sequences")


# --- leaves --------------------------------------------------------------------------------------


def leaves(body: Body) -> Iterator[Leaf]:
    """Every leaf of a request body."""
    yield from _said("system", body.get("system_instruction"), "$.system_instruction")
    given = body.get("input")
    yield from _said("text", given, "$.input")
    if isinstance(given, dict):
        yield from _content_leaves(given, "text", "$.input")
    is_steps = any(_is_step(item) for item in objects(given))
    for index, item in enumerate(objects(given)):
        yield from _item_leaves(item, f"$.input[{index}]", is_steps=is_steps)


def _said(kind: str, text: Any, path: str) -> Iterator[Leaf]:
    if isinstance(text, str) and text:
        yield Leaf(kind, text, path)


def _item_leaves(item: Body, path: str, *, is_steps: bool) -> Iterator[Leaf]:
    kind = item.get("type")
    if kind in ("user_input", "model_output") or (kind is None and "role" in item):
        content = item.get("content")
        yield from _said("text", content, f"{path}.content")
        if isinstance(content, dict):
            yield from _content_leaves(content, "text", f"{path}.content")
        for index, part in enumerate(objects(content)):
            where = f"{path}.content[{index}]"
            if _is_step(part):
                yield from _item_leaves(part, where, is_steps=True)
            else:
                yield from _content_leaves(part, "text", where)
    elif kind == "thought":
        for index, part in enumerate(objects(item.get("summary"))):
            yield from _said("reasoning", part.get("text"), f"{path}.summary[{index}].text")
        yield from _said("signature", item.get("signature"), f"{path}.signature")
    elif kind == "function_call":
        yield call(item.get("name"), item.get("arguments"), path)
    elif kind == "function_result":
        yield from _result_leaves(item.get("result"), f"{path}.result")
    elif _is_step(item) or (is_steps and kind not in _CONTENTS):
        yield Leaf("hosted", item, path)
    else:
        yield from _content_leaves(item, "text", path)


def _result_leaves(result: Any, path: str) -> Iterator[Leaf]:
    yield from _said("result", result, path)
    if isinstance(result, list) and all(
        isinstance(part, dict) and "type" in part for part in result
    ):
        for index, part in enumerate(result):
            yield from _content_leaves(part, "result", f"{path}[{index}]")
    elif result is not None and not isinstance(result, str):
        yield Leaf("result", result, path)


_CONTENTS = ("text", "image", "audio", "video", "document")


def _content_leaves(content: Body, kind: str, path: str) -> Iterator[Leaf]:
    tag = content.get("type")
    if tag == "text":
        yield from _said(kind, content.get("text"), f"{path}.text")
    elif tag not in _CONTENTS:
        yield Leaf("opaque", content, path)
    elif isinstance(content.get("data"), str):
        yield inline(content["data"], path, content.get("mime_type"))
    elif isinstance(content.get("uri"), str) and content["uri"].strip():
        yield located(content["uri"], path)
    else:
        yield Leaf("opaque", content, path)


def as_history(body: Body) -> Body:
    """An answer as a request that has it for its history."""
    return {"input": body.get("steps") or []}


def as_history_path(path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    return re.sub(r"^steps\b", "input", path)


# --- the SDK's parser ----------------------------------------------------------------------------


def _client(chunks: list[bytes], media_type: str) -> genai.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": media_type}
        return httpx2.Response(200, headers=headers, content=iter(chunks), request=request)

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    options = gemini.HttpOptions(base_url="http://sdk.invalid", httpx_client=transport)
    return genai.Client(api_key="x", vertexai=False, http_options=options)


def parse_stream(chunks: list[bytes]) -> Accumulated:
    """The events as the SDK reads them, folded as Google's documentation says."""
    client: Any = _client(chunks, "text/event-stream")
    stream = client.interactions.create(
        model="m", input="x", stream=True, automatic_continuation=False
    )
    events = [event.to_dict(mode="json", warnings=False) for event in stream]
    kinds = [event.get("event_type") for event in events]
    if "error" in kinds:
        raise ValueError(f"the stream ends in an error: {events[-1]}")
    if not kinds or kinds[-1] != "interaction.completed" or kinds[0] != "interaction.created":
        raise ValueError("the stream does not end or begin")
    final: Body = {}
    steps: dict[int, Body] = {}
    for event in (frame.value for frame in frames(b"".join(chunks)) if frame.data != "[DONE]"):
        if isinstance(event.get("interaction"), dict):
            final |= event["interaction"]
        if event.get("event_type") == "step.start":
            steps[event["index"]] = dict(event["step"])
        elif event.get("event_type") == "step.delta":
            _fold(steps[event["index"]], event["delta"])
    for step in steps.values():
        spelled = step.pop("spelled", None)
        if spelled:
            step["arguments"] = json.loads(spelled)
    told = [steps[index] for index in sorted(steps)] or final.get("steps") or []
    return Accumulated({**final, "steps": told}, events)


def _fold(step: Body, delta: Body) -> None:
    match delta.get("type"):
        case "text":
            contents = step.setdefault("content", [])
            if contents and contents[-1].get("type") == "text":
                contents[-1]["text"] += delta["text"]
            else:
                contents.append({"type": "text", "text": delta["text"]})
        case "text_annotation_delta":
            contents = step.setdefault("content", [])
            contents[-1].setdefault("annotations", []).extend(delta["annotations"])
        case "image" | "audio" | "video" | "document":
            step.setdefault("content", []).append(delta)
        case "thought_summary":
            summary = step.setdefault("summary", [])
            if summary and summary[-1].get("type") == delta["content"].get("type") == "text":
                summary[-1]["text"] += delta["content"]["text"]
            else:
                summary.append(dict(delta["content"]))
        case "thought_signature":
            step["signature"] = step.get("signature", "") + delta["signature"]
        case "arguments_delta":
            step["spelled"] = step.get("spelled", "") + delta["arguments"]
        case _:
            step.update(delta)


def parse_whole(chunks: list[bytes]) -> Body:
    """A whole answer that the SDK reads."""
    client: Any = _client(chunks, "application/json")
    client.interactions.create(model="m", input="x", automatic_continuation=False)
    body: Body = json.loads(b"".join(chunks))
    return body


def stream_rules(found: list[Frame]) -> Iterator[str]:
    """The order of events."""
    events = [frame.value for frame in found if frame.data != "[DONE]"]
    kinds = [event.get("event_type") for event in events]
    if "error" in kinds:
        return
    if not found or found[-1].data != "[DONE]":
        yield finding("$", "done", "the last frame is [DONE]")
    if kinds[:1] != ["interaction.created"] or kinds[-1:] != ["interaction.completed"]:
        yield finding("$", "frame", "a stream begins with created and ends with completed")
    for number, event in enumerate(events):
        if found[number].event not in (None, event.get("event_type")):
            yield finding(f"frame[{number}]", "event-name", "the frame is named after its event")
    yield from _steps_in_order(events)


def _steps_in_order(events: list[Body]) -> Iterator[str]:
    """Each step starts once, ends once, and says something only in between."""
    open_steps: dict[int, str] = {}
    seen: set[int] = set()
    for number, event in enumerate(events):
        index, path, kind = event.get("index"), f"frame[{number}]", event.get("event_type")
        if not str(kind).startswith("step.") or index is None:
            continue
        if kind == "step.start":
            if index in seen:
                yield finding(path, "step-twice", f"step {index} starts twice")
            seen.add(index)
            open_steps[index] = event["step"].get("type")
        elif index not in open_steps:
            yield finding(path, "step-closed", f"step {index} is not open")
        elif kind == "step.delta":
            yield from _fits(open_steps[index], event["delta"].get("type"), path)
        else:
            del open_steps[index]
    if open_steps:
        yield finding("$", "step-open", f"steps without an end: {sorted(open_steps)}")


def _fits(step: str, delta: Any, path: str) -> Iterator[str]:
    """What a step of a type may say."""
    known = {
        "model_output": {*_CONTENTS, "text_annotation_delta"},
        "thought": {"thought_summary", "thought_signature"},
        "function_call": {"arguments_delta"},
    }
    if step in known and delta not in known[step]:
        yield finding(path, "delta-type", f"{delta!r} in a {step!r}")


def around_stream(events: list[Body]) -> Body:
    """What events say around the answer: the last word counts."""
    found: Body = {}
    for event in events:
        told = event.get("interaction")
        if isinstance(told, dict):
            found |= {key: item for key, item in told.items() if item is not None}
    return {key: item for key, item in found.items() if key != "steps"}


def around_whole(body: Body) -> Body:
    """The same of a whole answer."""
    return {key: item for key, item in body.items() if key != "steps" and item is not None}


def error(status: int, message: str) -> Body:
    """An error as the server writes it."""
    codes = {400: "invalid_request", 401: "unauthenticated", 429: "resource_exhausted"}
    return {"error": {"message": message, "code": codes.get(status, "internal")}}


JUDGE = Judge(
    dialect="gemini_interactions",
    walker=Walker(left_out=_LEFT_OUT),
    request=Request,
    response=Response,
    chunk=Event,
    rules=rules,
    leaves=leaves,
    as_history=as_history,
    as_history_path=as_history_path,
    parse_stream=parse_stream,
    parse_whole=parse_whole,
    stream_rules=stream_rules,
    around_stream=around_stream,
    around_whole=around_whole,
    draw_request=interactions_bodies.request,
    draw_response=interactions_bodies.response,
    error=error,
    host="generativelanguage.googleapis.com",
    path="/v1beta/interactions",
    unconfirmed=frozenset({"name-duplicate", "text-blank", "ends-on-model"}),
    messages="input",
    drawn_response=DrawnAnswer,
    needed={
        **{each.__name__: ("type",) for each in (*get_args(Step), *get_args(Content), *_TOOLS)},
        **dict.fromkeys(("UserInput", "ModelOutput"), ("type", "content")),
        **dict.fromkeys(("Image", "Audio", "Video", "Document"), ("type", "data", "mime_type")),
        "Function": ("type", "name"),
    },
)
