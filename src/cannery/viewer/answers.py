"""What is asked of the viewer, and what it answers: values that know no HTTP server."""

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
    """Where a dialect is spoken: the address without the path, and the variable that holds the key."""

    address: str
    variable: str


class Asked(Struct):
    """A request for something below ``/ui``, with the store as its caller may see it.

    ``path`` is what follows ``/ui``. With ``is_read_only`` nothing can be changed. ``caller`` names the key, if there
    is one; ``base`` is the address at which the gateway answers, "" where there is none.
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
        """Whether the JSON twin of a page is asked for."""
        return self.path.endswith(".json")


class Answer(Struct):
    """A whole answer, or one in pieces."""

    status: int
    headers: list[Header]
    body: bytes | Iterator[bytes]
