"""Strategies that draw request and response bodies of the four dialects.

`requests` and `responses` are wild: well-typed bodies with unknown keys and unknown block types
on every level, odd texts, ids and names, results missing, doubled or out of order.
`typed_requests` leaves out what no SDK type knows. `tame_requests` and `tame_responses` also keep
to the server rules of the dialect, so that a translation of them has no excuse for breaking the
target's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st

from tests.oracles.judges import JUDGES

from . import chat_bodies, claude_bodies, gemini_bodies, responses_bodies
from .pieces import Body, Dice

Make = Callable[[Dice], Body]

_REQUESTS: dict[str, Make] = {
    "openai_chat": chat_bodies.request,
    "openai_responses": responses_bodies.request,
    "anthropic_messages": claude_bodies.request,
    "gemini_generate": gemini_bodies.request,
    **{name: judge.draw_request for name, judge in JUDGES.items()},
}
_RESPONSES: dict[str, Make] = {
    "openai_chat": chat_bodies.response,
    "openai_responses": responses_bodies.response,
    "anthropic_messages": claude_bodies.response,
    "gemini_generate": gemini_bodies.response,
    **{name: judge.draw_response for name, judge in JUDGES.items()},
}


@st.composite
def _body(draw: st.DrawFn, make: Make, extras: bool, orderly: bool) -> Body:
    return make(Dice(draw, extras=extras, orderly=orderly))


@cache
def requests(dialect: str) -> st.SearchStrategy[Body]:
    """Wild requests: unknown fields and blocks everywhere, no order promised."""
    return _body(_REQUESTS[dialect], extras=True, orderly=False)


@cache
def typed_requests(dialect: str) -> st.SearchStrategy[Body]:
    """Requests that the SDK's types accept, whatever the server says."""
    return _body(_REQUESTS[dialect], extras=False, orderly=False)


@cache
def tame_requests(dialect: str) -> st.SearchStrategy[Body]:
    """Requests that types and server rules of the dialect accept."""
    return _body(_REQUESTS[dialect], extras=False, orderly=True)


@cache
def responses(dialect: str) -> st.SearchStrategy[Body]:
    """Wild responses: unknown fields and blocks everywhere."""
    return _body(_RESPONSES[dialect], extras=True, orderly=False)


@cache
def tame_responses(dialect: str) -> st.SearchStrategy[Body]:
    """Responses that the SDK's response models accept."""
    return _body(_RESPONSES[dialect], extras=False, orderly=True)
