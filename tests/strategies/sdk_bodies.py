"""Bodies made of the official SDKs' own types: every block, item and setting that they know, in any mixture.

What a type leaves open is filled with values that a server could see; what only the documentation asks for (a Gemini
part has one kind of data, a file has a URI) is kept to. Texts are numbered, so that none can hide behind another.
"""

from __future__ import annotations

import datetime as dt
import enum
import random
import types
from typing import Any, Union

import typing_extensions as te
from anthropic.types import Message, message_create_params
from anthropic.types.beta import BetaMessage
from anthropic.types.beta import message_create_params as beta_params
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, completion_create_params
from openai.types.responses import Response, response_create_params

from tests.oracles import typecheck
from tests.oracles.judges import JUDGES
from tests.oracles.sdk_types import GenerateContentRequest

REQUESTS: dict[str, Any] = {
    "openai_chat": completion_create_params.CompletionCreateParams,
    "openai_responses": response_create_params.ResponseCreateParams,
    "anthropic_messages": message_create_params.MessageCreateParams,
    "anthropic_messages beta": beta_params.MessageCreateParams,
    "gemini_generate": GenerateContentRequest,
    **{name: judge.drawn_request or judge.request for name, judge in JUDGES.items()},
}
RESPONSES: dict[str, Any] = {
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
    "anthropic_messages": Message,
    "anthropic_messages beta": BetaMessage,
    "gemini_generate": GenerateContentResponse,
    **{name: judge.drawn_response or judge.response for name, judge in JUDGES.items()},
}
# Typed, but headers or the SDK's own.
_NOT_IN_BODIES = frozenset(
    {"betas", "workspace_id", "user_profile_id", "parsed"}
    | {"automaticFunctionCallingHistory", "sdkHttpResponse"}
)
_LEFT_OUT = frozenset(name for judge in JUDGES.values() for name in judge.walker.left_out)
_WIRE_NAMES = {("CitationMetadata", "citations"): "citationSources"}
_CONTENT = frozenset({"messages", "contents", "input", "content", "parts"})
_NEEDED = {
    "Blob": ("data", "mimeType"),
    "Content": ("role", "parts"),
    "FileData": ("fileUri", "mimeType"),
    "FunctionCall": ("name",),
    "FunctionDeclaration": ("name",),
    "FunctionResponse": ("name", "response"),
    "FunctionResponseBlob": ("data", "mimeType"),
    "FunctionResponseFileData": ("fileUri",),
    **{name: keys for judge in JUDGES.values() for name, keys in judge.needed.items()},
}
_PART_KINDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
_WORDS = ("hello", "Wörter", "line\nbreak", '{"x": 1}', "日本", "<b>", "  padded ")
_TEXTS: dict[str, tuple[str, ...]] = {
    "role": ("user", "model"),
    "name": ("look", "get_weather", "search"),
    "arguments": ('{"a":1}', "{}", "not json", ""),
    **dict.fromkeys(("data", "file_data"), ("AAECAw==", "AAAA")),
    **dict.fromkeys(
        ("url", "image_url", "file_url", "fileUri"),
        ("https://example.com/a.png", "data:image/png;base64,AAAA"),
    ),
    **dict.fromkeys(
        ("media_type", "mime_type", "mimeType"), ("image/png", "application/pdf", "text/plain")
    ),
}
_IDS = ("id_1", "id_2", "call_abc", "toolu_9")
_SCALARS: dict[Any, tuple[Any, ...]] = {
    bool: (True, False),
    int: (0, 1, 5, 1024),
    float: (0.0, 0.5, 1, 0.7),
    bytes: ("AAAA", "aGVsbG8="),
    dt.datetime: ("2026-01-01T00:00:00Z",),
}
_ANYTHING = (1, "x", {"a": [1, None]}, True, ["q"])
_SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}


def sdk_request(dialect: str, seed: int) -> dict[str, Any]:
    """A request body; the same one for the same seed."""
    makes_models = dialect == "gemini_generate" or dialect in JUDGES
    body: dict[str, Any] = _Maker(seed, models=makes_models).value(REQUESTS[dialect])
    return body


def sdk_response(dialect: str, seed: int) -> dict[str, Any]:
    """A response body; the same one for the same seed."""
    body: dict[str, Any] = _Maker(seed, models=True).value(RESPONSES[dialect])
    return body


class _Maker:
    def __init__(self, seed: int, *, models: bool) -> None:
        self._chance = random.Random(seed)
        self._models = models
        self._texts = 0

    def value(self, hint: Any, depth: int = 0, name: str = "") -> Any:
        hint = typecheck.unwrap(hint)
        origin = te.get_origin(hint)
        if hint in (Any, object):
            return self._chance.choice(_ANYTHING)
        if hint in (None, type(None)):
            return None
        if origin in (Union, types.UnionType):
            return self.value(self._chance.choice(self._options(hint, depth)), depth, name)
        if origin is te.Literal:
            return self._chance.choice(te.get_args(hint))
        if hint in typecheck.LISTS or origin in typecheck.LISTS:
            return self._list(te.get_args(hint), depth, name)
        if hint in typecheck.DICTS or origin in typecheck.DICTS:
            return self._dict(te.get_args(hint), depth, name)
        if typecheck.is_object(hint):
            return self._object(hint, depth)
        return self._scalar(hint, name)

    def _options(self, hint: Any, depth: int) -> list[Any]:
        options = [option for item in te.get_args(hint) for option in typecheck.flatten(item)]
        fitting = [
            option
            for option in options
            if not typecheck.origin_is_not_json(option)
            and getattr(option, "__name__", "") not in _LEFT_OUT
            and (self._models or not typecheck.is_model(option))
        ]
        flat = [option for option in fitting if not typecheck.is_object(option)]
        return flat if flat and depth > 9 else fitting

    def _list(self, args: tuple[Any, ...], depth: int, name: str) -> list[Any]:
        lengths = (1, 2, 3, 4) if depth <= 3 else (0, 1, 1, 2) if depth <= 12 else (0,)
        item = args[0] if args else Any
        return [self.value(item, depth + 1, name) for _ in range(self._chance.choice(lengths))]

    def _dict(self, args: tuple[Any, ...], depth: int, name: str) -> dict[str, Any]:
        if name in ("input_schema", "parameters", "schema"):
            return dict(_SCHEMA)
        keys = ("key", "other", "third")[: self._chance.randrange(3)]
        item = args[1] if args else Any
        return {key: self.value(item, depth + 1) for key in keys}

    def _object(self, hint: Any, depth: int) -> dict[str, Any]:
        needed = _NEEDED.get(hint.__name__, ())
        made: dict[str, Any] = {}
        for key in typecheck.keys_of(hint):
            name = _WIRE_NAMES.get((hint.__name__, key.names[0]), key.names[0])
            if name in _NOT_IN_BODIES:
                continue
            likely = (
                0.95 if name in _CONTENT else 0.25 if depth < 2 else 0.35 if depth < 8 else 0.05
            )
            if key.required or name in needed or self._chance.random() < likely:
                made[name] = self.value(key.hint, depth + 1, name)
            while name in needed and made[name] is None:
                made[name] = self.value(key.hint, depth + 1, name)
        if hint.__name__ == "Part":
            for kind in [name for name in made if name in _PART_KINDS][1:]:
                del made[kind]
        return made

    def _scalar(self, hint: Any, name: str) -> Any:
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._chance.choice([member.value for member in hint])
        if hint is not str:
            return self._chance.choice(_SCALARS[hint])
        if name in _TEXTS:
            return self._chance.choice(_TEXTS[name])
        if name.endswith("id"):
            return self._chance.choice(_IDS)
        self._texts += 1
        return f"{self._chance.choice(_WORDS)} {self._texts}."
