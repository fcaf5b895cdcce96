"""When the body under way was received: the timestamp of canisters that a decoder makes by itself."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime

RECEIVED: ContextVar[datetime] = ContextVar("received")
