"""Hosted tools of Converse: system tools of Amazon Nova, whose calls and results are in the model's message.

The results of a search are hidden; cited pages are beside the texts. It is not documented whether the server accepts a
use that it did not make, so none from elsewhere is sent. Written against the Nova 2 user guide and recorded responses
(2026-11-18).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cannery.messages.hosted import (
    FAILED,
    CodeExecution,
    HostedCall,
    HostedResult,
    HostedUse,
    Output,
    Run,
    Search,
    Source,
    Sources,
    WebSearch,
)
from cannery.messages.json_text import decode_json
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    HostedTable,
    Outcome,
    Tagged,
    Told,
    ToolRow,
    Written,
    take_text,
)

SERVER_CALL = "server_tool_use"
_SEARCH, _CODE = "nova_grounding", "nova_code_interpreter"
_HIDDEN = "[HIDDEN]"
# The form in which clients see a page that was found elsewhere.
_PAGE = ("url", "title", "text", "age")
ROWS = (
    ToolRow(WebSearch, (_SEARCH,), models=r"nova-(2|premier)"),
    ToolRow(CodeExecution, (_CODE,), models=r"nova-2"),
)


def _split(tool: Object) -> Iterator[Tagged]:
    """Split a tool entry: a system tool by its name, any other entry by its key."""
    for key, held in tool.items():
        value = held if type(held) is dict else {}
        name = take_text(value, "name") if key == "systemTool" else key
        yield name or key, value, f".{key}" if len(tool) > 1 else ""


def _place(tag: str, value: Object) -> tuple[Object | None, Object]:
    return {"systemTool": {"name": tag, **value}}, {}


# --- reading -------------------------------------------------------------------------------------


def _read_block(tag: str, block: Object) -> Told | None:
    held = block.get(tag)
    if type(held) is not dict:
        return None
    kind = held.get("type")
    if tag == "toolUse" and kind == SERVER_CALL:
        call = _read_call(held)
        return None if call is None else HostedUse(_taken(held, "name"), call)
    if tag == "toolResult" and kind in _RESULTS:
        content = held.pop("content", None)
        items = content if type(content) is list else []
        failed = held.pop("status", None) == "error"
        result = _RESULTS[kind](items)
        return Outcome(_taken(held), result, FAILED if failed else None)
    return None


def _taken(held: Object, *known: str) -> str:
    """Take the id of a block, and the fields of its meaning."""
    for key in ("type", *known):
        del held[key]
    return take_text(held, "toolUseId") or ""


def _read_call(held: Object) -> HostedCall | None:
    given = held.get("input")
    words = {_SEARCH: "query", _CODE: "snippet"}.get(str(held.get("name")))
    said = None if words is None else take_text(given, words)
    if said is None:
        return None
    return Search((said,)) if held["name"] == _SEARCH else Run(said)


def _read_found(items: list[Any]) -> HostedResult:
    found = [_read_source(item) for item in items if type(item) is dict]
    return Sources(tuple(source for source in found if source is not None))


def _read_source(item: Object) -> Source | None:
    """The results of a search as clients see them; the server itself hides them."""
    page = item.get("json")
    if type(page) is dict:
        return Source(**{key: take_text(page, key) for key in _PAGE})
    words = item.get("text")
    return Source(text=words) if type(words) is str and words != _HIDDEN else None


def _read_output(items: list[Any]) -> HostedResult:
    """The output of a program; the guide shows it as JSON text, recorded responses as JSON."""
    texts = []
    for item in items if all(type(item) is dict for item in items) else []:
        told = item.get("json", item.get("text"))
        facts = _object(told)
        if facts is not None and "stdOut" in facts:
            code = facts.get("exitCode")
            printed, errors = take_text(facts, "stdOut"), take_text(facts, "stdErr")
            return Output(printed or "", errors or "", code if type(code) is int else None)
        texts.append(str(told))
    return Output("".join(texts))


def _object(told: Any) -> Object | None:
    if type(told) is str:
        try:
            told = decode_json(told)
        except ValueError:
            return None
    return told if type(told) is dict else None


_RESULTS = {f"{_SEARCH}_result": _read_found, f"{_CODE}_result": _read_output}


# --- writing -------------------------------------------------------------------------------------


def _write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    call = use.call
    match call:
        case Search() if is_answer:
            items = use.result.items if isinstance(use.result, Sources) else ()
            pages = [{"json": _page(item)} for item in items]
            given = {"query": "; ".join(call.queries)}
            return _written(use, _SEARCH, given, pages or [{"text": _HIDDEN}])
        case Run() if is_answer:
            output = use.result if isinstance(use.result, Output) else Output(use.error or "")
            told = {
                "stdOut": output.text,
                "stdErr": output.errors,
                "exitCode": output.exit_code or int(use.has_failed),
                "isError": use.has_failed,
            }
            return _written(use, _CODE, {"snippet": call.code}, [{"json": told}])
        case _:
            return None


def _page(source: Source) -> Object:
    facts = {key: getattr(source, key) for key in _PAGE}
    return {key: fact for key, fact in facts.items() if fact is not None}


def _written(use: HostedUse, name: str, given: Object, content: list[Object]) -> Written:
    """A call and its outcome, with an id of its own."""
    digest = hashlib.sha256(use.identifier.encode("utf-8", "replace")).hexdigest()[:22]
    own = {"toolUseId": f"tooluse_{digest}"}
    call = {**own, "name": name, "input": given, "type": SERVER_CALL}
    status = "error" if use.has_failed else "success"
    result = {**own, "content": content, "status": status, "type": f"{name}_result"}
    return ("toolUse", {"toolUse": call}), ("toolResult", {"toolResult": result})


HOSTED = HostedTable(
    rows=ROWS,
    split=_split,
    place=_place,
    read_block=_read_block,
    write_use=_write_use,
    pairs=frozenset({"toolUse"}),
)
