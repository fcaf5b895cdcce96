"""Conversations that a caller continues by naming the last reply."""

from __future__ import annotations

from cannery.gateway.calls import Call
from cannery.gateway.recorder import Entry, Recorder
from cannery.gateway.upstreams import Upstream
from cannery.messages import Request, Response


class State:
    """Expands requests that name a reply instead of sending the history."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def expand(self, call: Call, request: Request, upstream: Upstream) -> Request:
        """The request with its whole history."""
        return request

    def named(self, call: Call, response: Response, entry: Entry | None) -> Response:
        """The response under an id that it can be found by."""
        return response
