"""Events of a model's own API in chunks, as InvokeModelWithResponseStream sends them.

Each message of the AWS event stream is named ``chunk`` and holds one event in base64; an error is an exception.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html (2026-11-18)
"""

from __future__ import annotations

import binascii

from cannery.errors import DialectError
from cannery.families.bedrock.errors import stream_exception
from cannery.messages.events import Failure
from cannery.wire.bodies import Object, read_object
from cannery.wire.framing import AWS_EVENT_STREAM, Packing
from cannery.wire.sse import Frame

_NAME = "aws_chunks"
_PING = "ping"


def _pack(frame: Frame) -> bytes:
    event = read_object(_NAME, frame.data.encode())
    kind = event.get("type")
    if kind == _PING:
        return b""
    if kind == "error":
        told = event.get("error")
        told = told if type(told) is dict else {}
        name = stream_exception(None, str(told.get("type", "")))
        return AWS_EVENT_STREAM.write(name, {"message": str(told.get("message", ""))})
    held = binascii.b2a_base64(frame.data.encode(), newline=False).decode()
    return AWS_EVENT_STREAM.write("chunk", {"bytes": held})


def _unpack(frame: Frame) -> Object | Failure:
    value = read_object(_NAME, frame.data.encode())
    if frame.name.endswith("Exception"):
        return Failure(str(value.get("message") or frame.name), frame.name)
    try:
        return read_object(_NAME, binascii.a2b_base64(str(value.get("bytes", ""))))
    except binascii.Error:
        raise DialectError(_NAME, "bytes", "not base64") from None


AWS_CHUNKS = Packing(AWS_EVENT_STREAM, _pack, _unpack)
