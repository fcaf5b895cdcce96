"""Short builders for daily use: ``user("Hi")`` instead of three class names.

Each takes text or a content and gives one canister. A message of several parts is several
canisters, all but the first with ``joined=True``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cannery.messages.absence import Absential, absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    new_assistant,
    new_user,
)
from cannery.messages.checked import check_text, now
from cannery.messages.content import DataContentClass, TextualContentClass
from cannery.messages.protocols import Content


def _content(value: Any) -> Any:
    return TextualContentClass(value) if isinstance(value, str) else value


def user(
    content: str | Content, timestamp: Absential[datetime] = absent, *, joined: bool = False
) -> UserCanisterClass:
    """A user message."""
    if type(content) is str and timestamp is absent and type(joined) is bool:
        return new_user(check_text("TextualContent.text", content), now(), joined)  # type: ignore[no-any-return]
    return UserCanisterClass(_content(content), timestamp, joined=joined)


def assistant(
    content: Absential[str | Content] = absent,
    timestamp: Absential[datetime] = absent,
    *,
    joined: bool = False,
) -> AssistantCanisterClass:
    """A message of the model; without content if it only calls tools."""
    if type(content) is str and timestamp is absent and type(joined) is bool:
        return new_assistant(check_text("TextualContent.text", content), now(), joined)  # type: ignore[no-any-return]
    return AssistantCanisterClass(_content(content), timestamp, joined=joined)


def supervisor(
    content: str | Content,
    timestamp: Absential[datetime] = absent,
    *,
    rank: Absential[str] = absent,
    joined: bool = False,
) -> SupervisorCanisterClass:
    """Instructions that rank above the conversation."""
    return SupervisorCanisterClass(_content(content), timestamp, rank=rank, joined=joined)


def document(
    content: str | Content,
    title: Absential[str] = absent,
    timestamp: Absential[datetime] = absent,
    *,
    joined: bool = False,
) -> DocumentCanisterClass:
    """A reference document."""
    return DocumentCanisterClass(_content(content), timestamp, title=title, joined=joined)


def invocation(
    identifier: str,
    name: str,
    arguments: Mapping[str, Any] | str = "",
    timestamp: Absential[datetime] = absent,
    *,
    is_freeform: bool = False,
    joined: bool = False,
) -> InvocationCanisterClass:
    """A tool call of the model."""
    return InvocationCanisterClass(
        identifier, name, arguments, timestamp, is_freeform=is_freeform, joined=joined
    )


def result(
    invocation_id: str,
    content: str | Mapping[str, Any] | list[Any] | Content = "",
    error: Absential[str | bool] = absent,
    timestamp: Absential[datetime] = absent,
    *,
    joined: bool = False,
) -> ResultCanisterClass:
    """A tool result: text, a content, or a JSON object or list."""
    held = DataContentClass(content) if isinstance(content, (Mapping, list)) else _content(content)
    return ResultCanisterClass(invocation_id, held, error, timestamp, joined=joined)
