"""Hosted tools: those that at least two providers run for a model, in provider-neutral terms.

A definition describes a tool; a use is one call of it with its outcome. Both are derived: a request keeps the tool, and
a conversation the block, exactly as its dialect wrote it (``Tool.hosted``, ``OpaqueContent``), and each dialect has a
table that reads the meaning out of its own shapes and writes it in them (``cannery.wire.hosted``). Signatures and
encrypted payloads are not part of the meaning.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, Union

from msgspec import Struct


class UserLocation(Struct, frozen=True, gc=False):
    """The approximate location of the user."""

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
    """The model may read pages whose URLs it has seen."""

    kind: ClassVar[str] = "web_fetch"

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None


class CodeExecution(Struct, frozen=True, gc=False):
    """The model may run code in a sandbox of the provider."""

    kind: ClassVar[str] = "code_execution"


class McpServer(Struct, frozen=True, gc=False):
    """The provider may call the tools of an MCP server; ``approval`` says which calls need approval, "" for none.

    ``authorization`` is a token, and ``headers`` are the other headers sent to the server, by name.
    """

    kind: ClassVar[str] = "mcp"

    label: str
    url: str
    authorization: str | None = None
    headers: tuple[tuple[str, str], ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    approval: str | None = None


class FileSearch(Struct, frozen=True, gc=False):
    """The model may search file stores, which only their provider has; ``filter`` restricts the search."""

    kind: ClassVar[str] = "file_search"

    stores: tuple[str, ...] = ()
    max_results: int | None = None
    filter: str | None = None


class ComputerUse(Struct, frozen=True, gc=False):
    """The model may use a computer by actions that it knows, except the ``excluded`` ones."""

    kind: ClassVar[str] = "computer_use"

    environment: str | None = None
    excluded: tuple[str, ...] | None = None


class ImageGeneration(Struct, frozen=True, gc=False):
    """The model may generate images; ``aspect`` is the aspect ratio, such as 3:2."""

    kind: ClassVar[str] = "image_generation"

    aspect: str | None = None


HostedTool: TypeAlias = Union[  # noqa: UP007 - a closed set
    WebSearch, WebFetch, CodeExecution, McpServer, FileSearch, ComputerUse, ImageGeneration
]


# --- calls -------------------------------------------------------------------------------------


class Search(Struct, frozen=True, gc=False):
    """A web search."""

    kind: ClassVar[str] = "web_search"

    queries: tuple[str, ...] = ()


class Fetch(Struct, frozen=True, gc=False):
    """Pages that were read; ``pattern`` is a text that was looked for in them."""

    kind: ClassVar[str] = "web_fetch"

    urls: tuple[str, ...] = ()
    pattern: str | None = None


class Run(Struct, frozen=True, gc=False):
    """Code that was run."""

    kind: ClassVar[str] = "code_execution"

    code: str
    language: str = "python"


class McpCall(Struct, frozen=True, gc=False):
    """A call of an MCP server's tool; ``arguments`` is their exact text."""

    kind: ClassVar[str] = "mcp"

    server: str
    name: str
    arguments: str = ""


class FileQuery(Struct, frozen=True, gc=False):
    """A search of file stores."""

    kind: ClassVar[str] = "file_search"

    queries: tuple[str, ...] = ()


HostedCall: TypeAlias = Union[  # noqa: UP007 - the same
    Search, Fetch, Run, McpCall, FileQuery
]


# --- what came of them -------------------------------------------------------------------------

# The error of a failed use without details.
FAILED = "the call failed"


class Source(Struct, frozen=True, gc=False):
    """A page or a file that was found; ``text`` is its content, ``age`` the age of the page."""

    url: str | None = None
    title: str | None = None
    text: str | None = None
    age: str | None = None
    file: str | None = None


class Sources(Struct, frozen=True, gc=False):
    """The results of a search, or the pages that were read."""

    items: tuple[Source, ...] = ()


class Output(Struct, frozen=True, gc=False):
    """The output of a program or a tool, and the files that it created.

    ``exit_code`` is None if unknown.
    """

    text: str = ""
    errors: str = ""
    exit_code: int | None = None
    files: tuple[Source, ...] = ()


HostedResult: TypeAlias = Union[Sources, Output]  # noqa: UP007 - the same


class HostedUse(Struct, frozen=True, gc=False):
    """One call of a hosted tool and its outcome; ``result`` is None until, or unless, it is known.

    ``error`` is the provider's error word or a sentence.
    """

    identifier: str
    call: HostedCall
    result: HostedResult | None = None
    error: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the use failed, according to the provider or the program."""
        exit_code = self.result.exit_code if isinstance(self.result, Output) else None
        return self.error is not None or bool(exit_code)

    @property
    def kind(self) -> str:
        """The kind of tool that was used."""
        return self.call.kind
