"""Hosted tools of generateContent: a tool is a key, and calls are parts.

Search calls come with signatures of this provider, so none from elsewhere can be sent; code and its output can. Keys
come in two spellings. Written against the types of google-genai 3.1.0 (2026-11-15).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cannery.dialects.gemini_generate.forms import WEB_SEARCH, camel, spelled
from cannery.families.gemini.actions import computer_row, read_actions
from cannery.families.gemini.enums import LANGUAGES, OUTCOMES, named
from cannery.messages.hosted import (
    FAILED,
    CodeExecution,
    Fetch,
    FileQuery,
    FileSearch,
    HostedUse,
    ImageGeneration,
    McpServer,
    Output,
    Run,
    Search,
    Source,
    Sources,
    WebFetch,
    WebSearch,
)
from cannery.wire.bodies import Object
from cannery.wire.hosted import (
    BEARER,
    COUNT,
    HEADERS,
    TEXT,
    TEXTS,
    Beside,
    HostedTable,
    Outcome,
    Setting,
    Tagged,
    Told,
    ToolRow,
    Written,
    leaves,
    shows_images,
    take_text,
)
from cannery.wire.places import last_key
from cannery.wire.residues import Left

_MODALITIES = "responseModalities"
_COMPUTER = computer_row(
    "computerUse", "environment", "excludedPredefinedFunctions", "ENVIRONMENT_"
)
ROWS = (
    ToolRow(
        WebSearch,
        ("googleSearch", "googleSearchRetrieval", "enterpriseWebSearch"),
        {"blocked_domains": ("excludeDomains", TEXTS)},
        {},
        {"searchTypes": {"webSearch": {}}},
        # The Developer API refuses it.
        unwritten=frozenset({"blocked_domains"}),
    ),
    ToolRow(WebFetch, ("urlContext",)),
    ToolRow(CodeExecution, ("codeExecution",)),
    _COMPUTER,
    ToolRow(
        ImageGeneration,
        (_MODALITIES,),
        {"aspect": ("imageConfig.aspectRatio", TEXT)},
        # Here images are an output modality, which no other model has.
        models="image",
    ),
    ToolRow(
        McpServer,
        ("mcpServers",),
        {
            "label": ("name", TEXT),
            "url": ("streamableHttpTransport.url", TEXT),
            "authorization": ("streamableHttpTransport.headers", BEARER),
            "headers": ("streamableHttpTransport.headers", HEADERS),
        },
        needs=("label", "url"),
    ),
    ToolRow(
        FileSearch,
        ("fileSearch",),
        {
            "stores": ("fileSearchStoreNames", TEXTS),
            "max_results": ("topK", COUNT),
            "filter": ("metadataFilter", TEXT),
        },
        home="google",
        bound="its stores of files are known only to their own provider",
    ),
)


def _split(group: Object) -> Iterator[Tagged]:
    """Split a tool: each key is a tool of its own, and so is each server in a list; a single key gives the place."""
    for key, held in group.items():
        tag, path = camel(key), f".{key}" if len(group) > 1 else ""
        if type(held) is list:
            for index, item in enumerate(held):
                yield tag, item if type(item) is dict else {}, f"{path}[{index}]"
        else:
            yield tag, held if type(held) is dict else {}, path


def _place(tag: str, value: Object) -> tuple[Object | None, Object]:
    if tag == _MODALITIES:
        return None, {"generationConfig": {tag: ["TEXT", "IMAGE"], **value}}
    return {tag: [value] if tag == "mcpServers" else value}, {}


# --- parts ---------------------------------------------------------------------------------------

_SEARCH, _IMAGES, _PAGES = WEB_SEARCH, "GOOGLE_SEARCH_IMAGE", "URL_CONTEXT"
_FILES = "FILE_SEARCH"


def _read_block(tag: str, part: Object) -> Told | None:
    key = spelled(part, tag)
    inner = part.get(key)
    read = _PARTS.get(tag)
    return None if read is None or type(inner) is not dict else read(inner)


def _read_code(part: Object) -> HostedUse | None:
    code = take_text(part, "code")
    language = str(named(part.pop("language", "PYTHON"), LANGUAGES)).lower()
    return None if code is None else HostedUse(take_text(part, "id") or "", Run(code, language))


def _read_output(part: Object) -> Outcome:
    if "outcome" in part:
        part["outcome"] = named(part["outcome"], OUTCOMES)
    outcome, words = take_text(part, "outcome"), take_text(part, "output") or ""
    identifier = take_text(part, "id") or ""
    if outcome in (None, "OUTCOME_OK"):
        return Outcome(identifier, Output(words))
    # A program's output before a failure and its error message are in one text here.
    word = str(outcome).removeprefix("OUTCOME_").lower()
    error = FAILED if word == "failed" else word
    return Outcome(identifier, Output("", words), error)


def _read_call(part: Object) -> HostedUse | None:
    kind, given = part.pop(spelled(part, "toolType"), None), part.get("args")
    identifier = take_text(part, "id") or ""
    if kind in (_SEARCH, _IMAGES):
        return HostedUse(identifier, Search(_texts(given, "queries")))
    if kind == _PAGES:
        return HostedUse(identifier, Fetch(_texts(given, "urls")))
    if kind == _FILES:
        return HostedUse(identifier, FileQuery(_texts(given, "queries")))
    return None


def _texts(given: Any, key: str) -> tuple[str, ...]:
    held = given.pop(key, None) if type(given) is dict else None
    return tuple(map(str, held)) if type(held) is list else ()


def _read_answer(part: Object) -> Outcome:
    part.pop(spelled(part, "toolType"), None)
    response, identifier = part.get("response"), take_text(part, "id") or ""
    found = response.get("result") if type(response) is dict else None
    error = take_text(response, "error")
    if type(found) is not list:
        return Outcome(identifier, None if response is None else Sources(), error)
    return Outcome(identifier, Sources(tuple(map(_read_source, found))), error)


def _read_source(found: Any) -> Source:
    url = take_text(found, "url") or take_text(found, "uri")
    title, words = take_text(found, "title"), take_text(found, "text")
    return Source(url, title, words)


_PARTS = {
    "executableCode": _read_code,
    "codeExecutionResult": _read_output,
    "toolCall": _read_call,
    "toolResponse": _read_answer,
}


# --- grounding -----------------------------------------------------------------------------------

_GROUNDING = ("groundingMetadata", "grounding_metadata")


def _read_beside(left: Left) -> list[Beside]:
    """The searches that the grounding of a response reports, if no parts report them."""
    found = []
    for path, held in left:
        if last_key(path) in _GROUNDING and type(held) is dict:
            found += _read_grounding(path.removeprefix("."), held)
    return found


def _read_grounding(place: str, grounding: Object) -> list[Beside]:
    web = _queries(grounding, "webSearchQueries"), _sources(grounding, "web")
    files = _queries(grounding, "retrievalQueries"), _sources(grounding, "retrievedContext")
    supports, chunks = (spelled(grounding, key) for key in ("groundingSupports", "groundingChunks"))
    cited = _cited(grounding.pop(supports, None))
    unsaid = {path[1:].partition(".")[0].partition("[")[0] for path, _ in leaves(grounding)}
    said = frozenset(f"{place}.{key}" for key in _GROUNDS if key not in unsaid)
    # The texts report the losses of their own citations.
    again = {f"{place}.{supports}"}
    listed = grounding.get(chunks)
    count = len(listed) if type(listed) is list else 0
    if chunks not in unsaid and cited.issuperset(range(count)) and len(web[1]) == count:
        again.add(f"{place}.{chunks}")
    paths = (place, said, frozenset(again))
    found = []
    if any(web):
        found.append(Beside(HostedUse("", Search(web[0]), Sources(web[1])), *paths))
    if any(files):
        found.append(Beside(HostedUse("", FileQuery(files[0]), Sources(files[1])), *paths))
    return found


_GROUNDS = (
    *("webSearchQueries", "web_search_queries", "retrievalQueries", "retrieval_queries"),
    *("groundingChunks", "grounding_chunks"),
)


def _cited(supports: Any) -> set[Any]:
    """The positions of the sources that are cited."""
    listed = [one for one in supports if type(one) is dict] if type(supports) is list else []
    indices = [one.get(spelled(one, "groundingChunkIndices")) for one in listed]
    return {index for each in indices if type(each) is list for index in each if type(index) is int}


def _queries(grounding: Object, key: str) -> tuple[str, ...]:
    return _texts(grounding, spelled(grounding, key))


def _sources(grounding: Object, kind: str) -> tuple[Source, ...]:
    """Take the sources of one kind from the grounding of a response."""
    chunks = grounding.get(spelled(grounding, "groundingChunks"))
    found = []
    for chunk in chunks if type(chunks) is list else ():
        held = chunk.get(spelled(chunk, kind)) if type(chunk) is dict else None
        if type(held) is dict:
            document = take_text(held, spelled(held, "documentName"))
            url, title = take_text(held, "uri"), take_text(held, "title")
            # The site's name is in the address, or is the title.
            held.pop("domain", None)
            found.append(Source(url, title, take_text(held, "text"), None, document))
    return tuple(found)


def _write_use(use: HostedUse, is_answer: bool) -> Written | None:  # noqa: FBT001 - one signature for all tables
    call = use.call
    match call:
        case Run() if call.language == "python" or is_answer:
            return _write_run(use, call)
        case Search() if is_answer:
            return _write_pair(use, _SEARCH, {"queries": list(call.queries)})
        case Fetch() if is_answer:
            return _write_pair(use, _PAGES, {"urls": list(call.urls)})
        case FileQuery() if is_answer:
            return _write_pair(use, _FILES, {"queries": list(call.queries)})
        case _:
            return None


def _write_run(use: HostedUse, call: Run) -> Written:
    is_known = call.language == "python"
    code = {"language": "PYTHON" if is_known else "LANGUAGE_UNSPECIFIED", "code": call.code}
    output = use.result if isinstance(use.result, Output) else Output(use.error or "")
    has_failed = use.error is not None or bool(output.exit_code)
    result = {"outcome": "OUTCOME_FAILED" if has_failed else "OUTCOME_OK"}
    result["output"] = output.text + output.errors
    return (
        ("executableCode", {"executableCode": code}),
        ("codeExecutionResult", {"codeExecutionResult": result}),
    )


def _write_pair(use: HostedUse, kind: str, given: Object) -> Written:
    digest = hashlib.sha256(use.identifier.encode("utf-8", "replace")).hexdigest()
    named: Object = {"id": digest[:8], "toolType": kind}
    items = use.result.items if isinstance(use.result, Sources) else ()
    found = [
        {
            key: held
            for key, held in (("url", one.url), ("title", one.title), ("text", one.text))
            if held
        }
        for one in items
    ]
    response: Object = {"result": found}
    if use.error is not None:
        response["error"] = use.error
    return (
        ("toolCall", {"toolCall": {**named, "args": given}}),
        ("toolResponse", {"toolResponse": {**named, "response": response}}),
    )


HOSTED = HostedTable(
    rows=ROWS,
    split=_split,
    settings={
        f"generationConfig.{_MODALITIES}": Setting(_MODALITIES, shows_images),
        "generation_config.response_modalities": Setting(_MODALITIES, shows_images),
    },
    place=_place,
    read_block=_read_block,
    write_use=_write_use,
    read_beside=_read_beside,
    groups={"computerUse": lambda _, value: read_actions(_COMPUTER, value)},
    pairs=frozenset({"executableCode", "toolCall"}),
    # https://ai.google.dev/gemini-api/docs/tool-combination, 2026-11-18.
    apart=r"gemini-[12]\b",
    mixed={"toolConfig": {"includeServerSideToolInvocations": True}},
)
