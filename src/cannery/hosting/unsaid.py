"""The facts of a hosted tool use that its new shape does not express.

No dialect lists them: the written blocks are read again by their own dialect, and a fact that is not read back was
lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cannery.hosting.blocks import outcome_in, told_by, with_outcome
from cannery.messages.hosted import (
    FAILED,
    Fetch,
    HostedCall,
    HostedUse,
    McpCall,
    Output,
    Run,
    Source,
    Sources,
)
from cannery.messages.json_text import decode_json
from cannery.wire.arguments import object_input

_FACTS = {"url": "addresses", "title": "titles", "text": "texts", "age": "ages", "file": "files"}


def unsaid(use: HostedUse, blocks: Iterable[Any]) -> Iterator[str]:
    """The facts that the blocks of a use do not express, as sentences."""
    heard = _heard(blocks)
    if heard is None:
        return
    yield from _unsaid_call(use.call, heard.call)
    output = heard.result if isinstance(heard.result, Output) else Output()
    if isinstance(use.result, Sources):
        yield from _unsaid_sources(use, heard)
    elif isinstance(use.result, Output):
        yield from _unsaid_output(use.result, output)
    if use.has_failed and not heard.has_failed:
        yield "the target does not show that the call failed"
    words = use.error if use.error != FAILED else None
    if words and words not in (heard.error or "") + output.text + output.errors:
        yield f"the error was {words!r}"


def _heard(blocks: Iterable[Any]) -> HostedUse | None:
    """The use that is read back from blocks."""
    use = None
    for block in blocks:
        told = told_by(block)[0]
        outcome = outcome_in(told)
        if isinstance(told, HostedUse):
            use = told
        elif use is not None and outcome is not None:
            use = with_outcome(use, outcome)
    return use


def _unsaid_call(asked: HostedCall, heard: HostedCall) -> Iterator[str]:
    match asked:
        case Run() if isinstance(heard, Run) and asked.language != heard.language:
            yield f"the code is {asked.language}"
        case Fetch() if isinstance(heard, Fetch) and asked.pattern != heard.pattern:
            yield "the pattern that was looked for in a page is missing"
        case McpCall() if isinstance(heard, McpCall):
            if _arguments(asked.arguments) != _arguments(heard.arguments):
                yield "the arguments have another form here"


def _arguments(text: str) -> Any:
    """Arguments as a value; arguments that are not an object as their text."""
    return text if object_input(text) is None else decode_json(text.strip() or "{}")


def _unsaid_sources(use: HostedUse, heard: HostedUse) -> Iterator[str]:
    found = use.result.items if isinstance(use.result, Sources) else ()
    told = heard.result.items if isinstance(heard.result, Sources) else ()
    for fact, name in _FACTS.items():
        if not _facts(found, fact) <= _facts(told, fact):
            yield f"the {name} of the sources are missing"


def _facts(sources: Iterable[Source], name: str) -> set[str]:
    return {getattr(source, name) or "" for source in sources} - {""}


def _unsaid_output(output: Output, heard: Output) -> Iterator[str]:
    if not (
        output.text in heard.text + heard.errors and output.errors in heard.text + heard.errors
    ):
        yield "a part of the output is missing"
    elif output.text and output.errors and output.errors != heard.errors:
        yield "output and error output are one text here"
    if output.exit_code and output.exit_code != heard.exit_code:
        yield f"the exit code was {output.exit_code}"
    if {*output.files} - {*heard.files}:
        yield "generated files are not shown"
