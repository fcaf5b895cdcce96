"""Hosted tools of Mistral: what a request offers, and what the server ran while it answered.

Chat completions take images, libraries of documents and connectors; searches of the web and code are only tools of
conversations. The server tells of its calls in several ``messages`` of one choice (mistralai 3.7.0, read 2026-11-19).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.families.chat.answers import results_among, was_run
from cannery.messages.hosted import FileSearch, HostedUse, ImageGeneration, McpCall, Output
from cannery.wire.arguments import argument_text
from cannery.wire.bodies import Object
from cannery.wire.hosted import TEXTS, Beside, HostedTable, ToolRow
from cannery.wire.residues import Left

# The field of a choice that has the messages.
SEVERAL = "messages"
# A connector is a server of tools; those that tell no name of their own are Mistral's.
_SERVER = "mistral"
ROWS = (
    ToolRow(ImageGeneration, ("image_generation",)),
    ToolRow(
        FileSearch,
        ("document_library",),
        {"stores": ("library_ids", TEXTS)},
        needs=("stores",),
        home=_SERVER,
        bound="its libraries of documents are known only to Mistral",
    ),
)


def _read_beside(left: Left) -> list[Beside]:
    """The calls that the server ran, where an answer has several messages."""
    found = []
    for path, held in left:
        if path.rpartition(".")[2] == SEVERAL and type(held) is list:
            place = path.removeprefix(".")
            is_text = all(type(each.get("content")) is str for each in results_among(held).values())
            said = frozenset({place} if is_text else ())
            found += [Beside(use, place, said) for use in _uses(held)]
    return found


def _uses(messages: list[Any]) -> Iterator[HostedUse]:
    results = results_among(messages)
    for message in messages:
        calls = message.get("tool_calls") if type(message) is dict else None
        for call in calls if type(calls) is list else ():
            function = call.get("function") if type(call) is dict else None
            if type(function) is dict and was_run(call, results):
                asked = McpCall(
                    _SERVER,
                    str(function.get("name") or ""),
                    argument_text(function.get("arguments")),
                )
                yield HostedUse(call["id"], asked, Output(_words(results[call["id"]])))


def _words(result: Object) -> str:
    """What a result says in text."""
    content = result.get("content")
    if type(content) is str:
        return content
    parts = content if type(content) is list else ()
    return "".join(
        part["text"] for part in parts if type(part) is dict and type(part.get("text")) is str
    )


HOSTED = HostedTable(rows=ROWS, read_beside=_read_beside)
