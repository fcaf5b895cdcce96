"""A judge: everything by which the tests know one dialect, from sources that know nothing of our code.

Each module of ``judges`` has one as ``JUDGE`` and is found by its name, so that a dialect brings its judge as one file.
The four first dialects stand in the tables of the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.strategies.pieces import Dice

from .leaf import Leaf
from .sse import Frame, frames
from .typecheck import Walker

Body = dict[str, Any]


@dataclass(frozen=True)
class Accumulated:
    """What the SDK made of a stream."""

    final: Body
    events: list[Body]
    judge: Callable[[], list[str]] = field(default=list, compare=False)

    @property
    def problems(self) -> list[str]:
        """The strict type findings of every event and of the result, which take a while."""
        return self.judge()


@dataclass(frozen=True)
class Judge:
    """How one dialect is judged."""

    dialect: str
    # The SDK's types: how to read them, and those of a request, a response and a stream event.
    walker: Walker
    request: Any
    response: Any
    chunk: Any
    # What the server refuses, and which of these rules nothing but common knowledge confirms.
    rules: Callable[[Body], Iterator[str]]
    # The leaves of a request, and an answer as a request that has it for its history, with the paths of its losses.
    leaves: Callable[[Body], Iterator[Leaf]]
    as_history: Callable[[Body], Body]
    as_history_path: Callable[[str], str]
    # The SDK's own parser of streams and of whole answers.
    parse_stream: Callable[[list[bytes]], Accumulated]
    parse_whole: Callable[[list[bytes]], Body]
    stream_rules: Callable[[list[Frame]], Iterator[str]]
    # What stands around an answer, by its events and by its whole body.
    around_stream: Callable[[list[Body]], Body]
    around_whole: Callable[[Body], Body]
    # How bodies are drawn at random.
    draw_request: Callable[[Dice], Body]
    draw_response: Callable[[Dice], Body]
    error: Callable[[int, str], Body]
    host: str
    path: str
    unconfirmed: frozenset[str] = frozenset()
    messages: str = "messages"
    frames: Callable[[bytes], list[Frame]] = frames
    # The types that bodies made of types are drawn from, where they differ from those that judge.
    drawn_request: Any = None
    drawn_response: Any = None
    # Keys that such bodies always have, since the SDK writes them although its types do without, by type.
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
