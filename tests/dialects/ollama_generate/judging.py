"""What judges Ollama's generate: ollama 0.6.3's types and parser. It knows nothing of our code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

import httpx
import ollama
import pydantic
from ollama import _types as types

from tests.oracles.typecheck import Walker

DATA = Path(__file__).parent / "data"
Body = dict[str, Any]


class Request(pydantic.BaseModel):
    """The body of ``/api/generate``, by ``GenerateRequest`` of the SDK."""

    model: str
    prompt: Optional[str] = None  # noqa: UP045 - the same form as the SDK's
    suffix: Optional[str] = None  # noqa: UP045
    system: Optional[str] = None  # noqa: UP045
    template: Optional[str] = None  # noqa: UP045
    context: Optional[Sequence[int]] = None  # noqa: UP045
    raw: Optional[bool] = None  # noqa: UP045
    images: Optional[Sequence[str]] = None  # noqa: UP045
    stream: Optional[bool] = None  # noqa: UP045
    options: Optional[types.Options] = None  # noqa: UP045
    format: Optional[Union[Literal["", "json"], Mapping[str, Any]]] = None  # noqa: UP007, UP045
    keep_alive: Optional[Union[float, str]] = None  # noqa: UP007, UP045
    think: Optional[Union[bool, Literal["low", "medium", "high"]]] = None  # noqa: UP007, UP045
    logprobs: Optional[bool] = None  # noqa: UP045
    top_logprobs: Optional[int] = None  # noqa: UP045


def request_problems(body: Body) -> list[str]:
    """What is wrong with a request by the types of the SDK."""
    return Walker().check(Request, body)


def answer_problems(body: Body) -> list[str]:
    """The same of an answer."""
    return Walker().check(types.GenerateResponse, body)


def cases(kind: str) -> list[tuple[str, Body]]:
    """The bodies of a kind with their names."""
    return [
        (path.stem, json.loads(path.read_bytes())["body"])
        for path in sorted((DATA / kind).glob("*.json"))
        if path.name != "index.json"
    ]


def streams() -> list[tuple[str, bytes]]:
    """The streams with their names."""
    return [(path.stem, path.read_bytes()) for path in sorted((DATA / "streams").glob("*.ndjson"))]


def read_by_sdk(chunks: list[bytes]) -> list[Any]:
    """The lines of a stream as the SDK reads them."""

    def answer(request: httpx.Request) -> httpx.Response:
        headers = {"content-type": "application/x-ndjson"}
        return httpx.Response(200, headers=headers, content=iter(chunks), request=request)

    client = ollama.Client("http://sdk.invalid", transport=httpx.MockTransport(answer))
    return list(client.generate("m", "x", stream=True))
