"""Requests to the viewer and its answers, independent of any HTTP server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cannery.storage import Store
from cannery.viewer.live import NOTHING_RUNS, Running

Header = tuple[str, str]
HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Endpoint(Struct, frozen=True):
    """An endpoint for a dialect: the address without the path, and the variable that contains the key."""

    address: str
    variable: str


class Asked(Struct):
    """A request for a path below ``/ui``, with the store limited to what its caller may see.

    ``path`` is the part after ``/ui``. With ``is_read_only`` nothing can be changed. ``caller`` is the name of the key,
    if there is one; ``base`` is the address of the gateway, or "".
    """

    store: Store
    path: str
    query: Mapping[str, str] = {}
    method: str = "GET"
    form: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    is_read_only: bool = True
    caller: str = ""
    sees_all: bool = True
    base: str = ""
    running: Running = NOTHING_RUNS
    endpoints: Mapping[str, Endpoint] = {}

    @property
    def is_json(self) -> bool:
        """Whether the JSON version of a page is requested."""
        return self.path.endswith(".json")


class Answer(Struct):
    """An answer with a complete body, or one in chunks."""

    status: int
    headers: list[Header]
    body: bytes | Iterator[bytes]
