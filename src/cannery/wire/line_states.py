"""What leads from one text of a line to the next, in Chat's spelling.

A line goes from state to state, turn by turn. A state is a table by speaker, filled when lines need it: what stands
before the text, and the state behind it. Only calls want more than the speaker's name: what leads to their arguments
is looked up by the name of the function.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

from cannery.wire.arguments import is_plain_identifier
from cannery.wire.slices import UnusualError

# The names of ShareGPT, which nearly all data sets of conversations use.
Speaker = Literal["human", "gpt", "system", "function_call", "observation"]

END = b"}]}\n"
_NEXT = b"},"
_NEXT_CALL = b'"}},'
_AFTER_CALLS = b'"}}]},'
_MESSAGES = {
    "human": b'{"role":"user","content":',
    "gpt": b'{"role":"assistant","content":',
    "system": b'{"role":"system","content":',
}
_SILENT = b'{"role":"assistant","content":null,"tool_calls":['
_CALLS = b',"tool_calls":['
_CALL = b'{"id":"call_%d","type":"function","function":{"name":"%b","arguments":"{'
_ANSWER = b'{"role":"tool","tool_call_id":"call_%d","content":'
# What stands in a text before a name and behind it, and between that and the arguments: with the spaces of Python's
# ``json.dumps``, and without.
_HEADS = (
    (b'{\\"name\\": \\"', b'\\", \\"arguments'),
    (b'{\\"name\\":\\"', b'\\",\\"arguments'),
)
OPENINGS = (b'\\": {', b'\\":{')
_MOST_CALLS = 1000
_MOST_NAMES = 1000


class State(dict[str, tuple[Any, "State"]]):
    """Where a line stands: what leads to the text of each speaker, and where the line stands behind it."""

    __slots__ = ("_before", "_calls", "_may_answer", "_said", "answered")

    def __init__(
        self,
        before: bytes,
        calls: int = 0,
        *,
        said: bool = False,
        waits: bool = False,
        may_answer: bool = False,
    ) -> None:
        super().__init__()
        self._before = before
        # How many calls have an answer, and whether one more answer may follow; None for a call without any.
        self._calls = calls
        self._may_answer = may_answer
        self.answered = None if waits else calls
        # Whether the model has just said something, to which its calls belong.
        self._said = said

    def __missing__(self, speaker: str) -> tuple[Any, State]:
        calls = self._calls
        found: tuple[Any, State]
        if speaker == "observation":
            if not self._may_answer or calls == _MOST_CALLS:
                raise UnusualError
            found = self._before + _ANSWER % calls, _state(_NEXT, calls + 1, may_answer=True)
        elif self.answered is None:
            raise UnusualError
        elif speaker == "function_call":
            before = _CALLS if self._said else self._before + _SILENT
            behind = _state(_AFTER_CALLS, calls, waits=True, may_answer=True)
            found = Calling(before, calls, is_said=self._said), behind
        else:
            behind = _state(_NEXT, calls, said=speaker == "gpt")
            found = self._before + _MESSAGES[speaker], behind
        self[speaker] = found
        return found


_state = cache(State)
# Where a line without calls ends, if the model has the last word.
USUAL = _state(_NEXT, 0, said=True)


class Calling(dict[str | bytes, bytes]):
    """What leads to the arguments of a call, by the name of the function or by what stands before them in a turn."""

    __slots__ = ("_before", "is_said", "number")

    def __init__(self, before: bytes, number: int, *, is_said: bool) -> None:
        super().__init__()
        self._before = before
        self.number = number
        # Whether it belongs to what the model said before.
        self.is_said = is_said

    def __missing__(self, key: str | bytes) -> bytes:
        name = key if isinstance(key, str) else name_in(key)
        if name is None or not is_plain_identifier(name):
            raise UnusualError
        if len(self) == _MOST_NAMES:
            self.clear()
        self[key] = found = self._before + _CALL % (self.number, name.encode())
        return found


@lru_cache(maxsize=_MOST_NAMES)
def name_in(head: bytes) -> str | None:
    """The plain name in what stands before arguments; None if that is not spelled in the usual way."""
    for start, end in _HEADS:
        if head.startswith(start) and head.endswith(end):
            name = head[len(start) : -len(end)]
            return name.decode() if name.isascii() and is_plain_identifier(name.decode()) else None
    return None


@cache
def next_call(number: int) -> Calling:
    """What leads to the arguments of a call behind another one."""
    return Calling(_NEXT_CALL, number, is_said=False)
