"""Hosted tools: what at least two providers run for a model, in words that none of them owns.

A definition says what a tool may do; a use is one call of it with what came of it. Both are derived: a request keeps
the tool, and a conversation the block, to the letter as its dialect wrote it (``Tool.hosted``, ``OpaqueContent``), and
each dialect has a table that reads the meaning out of its own shapes and writes it in them (``cannery.wire.hosted``).
Signatures and encrypted payloads are no part of the meaning.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, Union

from msgspec import Struct


class UserLocation(Struct, frozen=True, gc=False):
    """Roughly where the user is."""

    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None


# --- definitions -------------------------------------------------------------------------------


class WebSearch(Struct, frozen=True, gc=False):
    """The model may search the web; ``context_size`` is low, medium or high."""

    kind: ClassVar[str] = "web_search"

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    location: UserLocation | None = None
    context_size: str | None = None


class WebFetch(Struct, frozen=True, gc=False):
    """The model may read pages whose addresses it has seen."""

    kind: ClassVar[str] = "web_fetch"

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None


class CodeExecution(Struct, frozen=True, gc=False):
    """The model may run code in a sandbox of the provider."""

    kind: ClassVar[str] = "code_execution"


class McpServer(Struct, frozen=True, gc=False):
    """The provider may call the tools of an MCP server; ``approval`` says which calls wait for a consent, "" none.

    ``authorization`` is a token, and ``headers`` are what else is sent to the server, by name.
    """

    kind: ClassVar[str] = "mcp"

    label: str
    url: str
    authorization: str | None = None
    headers: tuple[tuple[str, str], ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    approval: str | None = None


class FileSearch(Struct, frozen=True, gc=False):
    """The model may search stores of files, which only their provider has; ``filter`` narrows what is searched."""

    kind: ClassVar[str] = "file_search"

    stores: tuple[str, ...] = ()
    max_results: int | None = None
    filter: str | None = None


class ComputerUse(Struct, frozen=True, gc=False):
    """The model may use a computer by actions that it knows, but for those that are ``excluded``."""

    kind: ClassVar[str] = "computer_use"

    environment: str | None = None
    excluded: tuple[str, ...] | None = None


class ImageGeneration(Struct, frozen=True, gc=False):
    """The model may make images; ``aspect`` is their width to their height, such as 3:2."""

    kind: ClassVar[str] = "image_generation"

    aspect: str | None = None


HostedTool: TypeAlias = Union[  # noqa: UP007 - a closed set
    WebSearch, WebFetch, CodeExecution, McpServer, FileSearch, ComputerUse, ImageGeneration
]


# --- calls -------------------------------------------------------------------------------------


class Search(Struct, frozen=True, gc=False):
    """A search of the web."""

    kind: ClassVar[str] = "web_search"

    queries: tuple[str, ...] = ()


class Fetch(Struct, frozen=True, gc=False):
    """Pages that were read; ``pattern`` is what was looked for in them."""

    kind: ClassVar[str] = "web_fetch"

    urls: tuple[str, ...] = ()
    pattern: str | None = None


class Run(Struct, frozen=True, gc=False):
    """Code that was run."""

    kind: ClassVar[str] = "code_execution"

    code: str
    language: str = "python"


class McpCall(Struct, frozen=True, gc=False):
    """A call of a tool on an MCP server; ``arguments`` is their exact text."""

    kind: ClassVar[str] = "mcp"

    server: str
    name: str
    arguments: str = ""


class FileQuery(Struct, frozen=True, gc=False):
    """A search of stores of files."""

    kind: ClassVar[str] = "file_search"

    queries: tuple[str, ...] = ()


HostedCall: TypeAlias = Union[  # noqa: UP007 - the same
    Search, Fetch, Run, McpCall, FileQuery
]


# --- what came of them -------------------------------------------------------------------------

# The error of a use of which nothing more is told.
FAILED = "the call failed"


class Source(Struct, frozen=True, gc=False):
    """A page or a file that was found; ``text`` is what it says there, ``age`` how old the page is."""

    url: str | None = None
    title: str | None = None
    text: str | None = None
    age: str | None = None
    file: str | None = None


class Sources(Struct, frozen=True, gc=False):
    """What a search found, or the pages that were read."""

    items: tuple[Source, ...] = ()


class Output(Struct, frozen=True, gc=False):
    """What a program printed or a tool answered, and the files that it made.

    ``exit_code`` is None where none was told.
    """

    text: str = ""
    errors: str = ""
    exit_code: int | None = None
    files: tuple[Source, ...] = ()


HostedResult: TypeAlias = Union[Sources, Output]  # noqa: UP007 - the same


class HostedUse(Struct, frozen=True, gc=False):
    """One call of a hosted tool and what came of it; ``result`` is None until, or unless, it is told.

    ``error`` says what went wrong, in a word of the provider or in a sentence.
    """

    identifier: str
    call: HostedCall
    result: HostedResult | None = None
    error: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong, by what the provider or the program said."""
        exit_code = self.result.exit_code if isinstance(self.result, Output) else None
        return self.error is not None or bool(exit_code)

    @property
    def kind(self) -> str:
        """What kind of tool was used."""
        return self.call.kind
