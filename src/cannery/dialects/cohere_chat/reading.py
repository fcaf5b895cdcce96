"""Reads Cohere requests: message fields beyond those of the family, and documents beside the messages.

A plan for calls is a thought. Citations are beside the content of a message and belong to its texts. Documents apply to
the whole conversation, so they come before its first turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from cannery.dialects.cohere_chat.settings import NAME, STRICT, TABLE
from cannery.errors import DialectError
from cannery.families.chat.reading import ChatReader, Held
from cannery.families.chat.tools import take_tools
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    InvocationCanisterClass,
    SupervisorCanisterClass,
    new_assistant,
    new_document,
)
from cannery.messages.content import (
    Citation,
    Origin,
    PartsContentClass,
    new_data,
    new_reasoning,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, decoded, is_named, kind_of, listed_reader
from cannery.wire.citations import cited
from cannery.wire.places import Path, Places, path_text
from cannery.wire.residues import nested, set_again

PLAN = "tool_plan"
# The form of a result with documents: this and a word for each part.
LISTED = "as"
_OLD = "is required; 'message' and 'chat_history' are fields of /v1/chat, send them as 'messages' to /v2/chat"
DOCUMENT, PART = "document", "part"
# The forms of a document that is a plain string, and of one whose data are.
STRING, BARE = "string", "bare"
_TEXT_CONTENT = (None, "TEXT_CONTENT")


class CohereReader(ChatReader):
    """Reads the messages of one body."""

    beside = frozenset({PLAN})
    # Whether a response is being read; its content is always a list.
    is_answer = False
    _start = 0
    # Whether the contents of a result are being read; only these have documents.
    _is_in_result = False

    def assistant(self, message: Object, role: str, path: Path) -> None:
        """An assistant message: text, plan, then calls."""
        self._start = len(self.canisters)
        super().assistant(message, role, path)

    def _beside(self, message: Object, path: Path, start: int) -> None:
        plan = message[PLAN]
        if plan is None or plan == "":
            return
        held = self.text(plan, f"{path_text(path)}.{PLAN}")
        del message[PLAN]
        thought = new_reasoning((held,), (), None, None, Origin(NAME, self.model))
        joined = len(self.canisters) > start
        residue = Residue(NAME, form=PLAN)
        self._add(new_assistant(thought, self.when, joined, residue), (*path, PLAN))

    def _assistant_form(self, content: Any, path: Path, start: int) -> str | None:
        if content is absent or content is None:
            return None if content is absent else "null"
        if type(content) is dict:
            # No server of this API answers so.
            return self._no_content(content, path)
        form = super()._assistant_form(content, path, start)
        return None if self.is_answer and form == "list" else form

    def _thinking(self, part: Object, path: Path) -> Held:
        text = self.text_field(part, "thinking", path_text(path))
        del part["thinking"], part["type"]
        return new_reasoning((text,), (), None, None, Origin(NAME, self.model)), set_again(part)

    # --- citations -----------------------------------------------------------------------------

    def _form(self, message: Object, form: str | None) -> str | None:
        if "citations" in message and self.cite(message["citations"]):
            del message["citations"]
        return form

    def cite(self, citations: Any) -> bool:
        """Attach citations to the texts they cite; whether the texts then have all of them, in order."""
        if type(citations) is not list or not citations:
            return False
        found: dict[int, list[Citation]] = {at: [] for at in self._texts()}
        for item in citations:
            at = self._cited(item, [*found])
            if at is not None:
                found[at].append(read_citation(item, str(self.canisters[at].held)))
        for at, listed in found.items():
            if listed:
                self.canisters[at] = cited(self.canisters[at], listed)
        return [decode_json(each.raw) for listed in found.values() for each in listed] == citations

    def _texts(self) -> list[int]:
        """The positions of the texts of the current message."""
        return [
            at
            for at in range(self._start, len(self.canisters))
            if type(self.canisters[at].held) is str
            and type(self.canisters[at]) is not InvocationCanisterClass
        ]

    def _cited(self, item: Any, texts: list[int]) -> int | None:
        """The cited text: the one with the citation's index, else the first that has the cited words at the offsets."""
        if type(item) is not dict or item.get("type") not in _TEXT_CONTENT or not texts:
            return None
        index, words = item.get("content_index"), item.get("text")
        for at in texts:
            if index is not None and self.places[at][-1] == index:
                return at
        for at in texts:
            start, end = read_span(item, str(self.canisters[at].held))
            if str(self.canisters[at].held)[start:end] == words:
                return at
        return texts[0]

    # --- documents -----------------------------------------------------------------------------

    def _document(self, part: Object, path: Path) -> Held | None:
        """The data of a document in a result; other places have no documents."""
        if not self._is_in_result:
            return None
        place = path_text(path)
        document = self.object(self.field(part, DOCUMENT, place), f"{place}.document")
        data = document.get("data")
        if type(data) not in (dict, str):
            return None
        del part[DOCUMENT], part["type"], document["data"]
        held = data if type(data) is str else new_data(write_json(data))
        return held, nested(part, {DOCUMENT: set_again(document)})

    def _result_parts(
        self, content: list[Any], path: Path
    ) -> tuple[Any, str | None, Object | None]:
        kinds = [item.get("type") if type(item) is dict else None for item in content]
        self._is_in_result = True
        held, form, patch = super()._result_parts(content, path)
        self._is_in_result = False
        if DOCUMENT not in kinds:
            return held, form, patch
        read = held.parts if isinstance(held, PartsContentClass) else (held,)
        is_opaque = [getattr(each, "kind", "") == "opaque" for each in read]
        words = [
            DOCUMENT if kind == DOCUMENT and not is_kept else PART
            for kind, is_kept in zip(kinds, is_opaque, strict=True)
        ]
        only = read[0] if len(read) == 1 and words == [DOCUMENT] else held
        return only, " ".join((LISTED, *words)), patch

    def documents(self, listed: list[Any]) -> None:
        """The documents beside the messages, placed after the leading instructions."""
        lead = 0
        while lead < len(self.canisters) and type(self.canisters[lead]) is SupervisorCanisterClass:
            lead += 1
        for index, item in enumerate(listed):
            canister = self._beside_messages(item, f"documents[{index}]")
            self.canisters.insert(lead + index, canister)
            self.places.insert(lead + index, ("documents", index))

    def _beside_messages(self, item: Any, place: str) -> Any:
        if type(item) is str:
            return new_document(item, self.when, False, Residue(NAME, form=STRING))
        left = decoded(self.object(item, place))
        data = decoded(left["data"]) if type(left.get("data")) is dict else left.get("data")
        if type(data) is str:
            del left["data"]
            return new_document(data, self.when, False, self._kept(set_again(left), None, BARE))
        data = self.object(self.field({**left, "data": data}, "data", place), f"{place}.data")
        del left["data"]
        key = "snippet" if "text" not in data else "text"
        is_text = data.keys() <= {key, "title"} and all(type(each) is str for each in data.values())
        if not is_text or key not in data:
            held: Any = new_data(write_json(data))
            return new_document(held, self.when, False, self._kept(set_again(left)))
        renamed = None if key == "text" else {"r": {"text": key}}
        residue = self._kept(nested(left, {"data": renamed}))
        title = data.get("title") or absent
        if title is absent and "title" in data:
            residue = self._kept(nested(left, {"data": {**(renamed or {}), "s": {"title": ""}}}))
        return new_document(data[key], self.when, False, residue, None, title)

    readers: ClassVar[Mapping[str, Any]] = {**ChatReader.readers, "assistant": assistant}
    part_readers: ClassVar[Mapping[str, Any]] = {
        **{key: ChatReader.part_readers[key] for key in ("text", "image_url")},
        "thinking": _thinking,
        DOCUMENT: _document,
    }


def read_citation(item: Object, words: str) -> Citation:
    """A citation of a text; if its source is a document with an address, in terms that every dialect understands."""
    start, end = read_span(item, words)
    sources = item.get("sources")
    listed = sources if type(sources) is list else []
    held = [source.get(DOCUMENT) for source in listed if type(source) is dict]
    document = next((each for each in held if type(each) is dict), {})
    facts = (document.get(key) for key in ("url", "title", "snippet"))
    url, title, snippet = (fact if is_named(fact) else None for fact in facts)
    return Citation(NAME, write_json(item), url, title, snippet, start, end)


def read_span(item: Object, words: str) -> tuple[int | None, int | None]:
    """The characters of a text that a citation covers.

    The unit is not documented. Recorded responses count code points; if the cited words do not match by that count,
    UTF-16 units and bytes are tried.
    """
    start, end, cited = item.get("start"), item.get("end"), item.get("text")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        return None, None
    if type(cited) is not str or words.isascii() or words[start:end] == cited:
        return start, end
    for coding, width in (("utf-16-le", 2), ("utf-8", 1)):
        coded = words.encode(coding)
        if coded[start * width : end * width] == cited.encode(coding):
            before = len(coded[: start * width].decode(coding))
            return before, before + len(cited)
    return start, end


@listed_reader(NAME)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    if "messages" not in body:
        if "message" in body or "chat_history" in body:
            raise DialectError(NAME, "messages", _OLD)
        raise DialectError(NAME, "messages", "is required")
    messages = body.pop("messages")
    documents = body.pop("documents") if body.get("documents") else []
    if type(documents) is not list:
        raise DialectError(NAME, "documents", f"expected a list, got {kind_of(documents)}")
    tools = take_tools(NAME, body, places.tools) if "tools" in body else ()
    is_strict = body.get(STRICT) is True and _are_open(tools)
    if is_strict:
        del body[STRICT]
        tools = (*(msgspec.structs.replace(tool, strict=True) for tool in tools),)
    settings = TABLE.read(body, places, tools, (STRICT,) if is_strict else ())
    reader = CohereReader(NAME, places.canisters, settings[0])
    reader.messages(messages)
    reader.documents(documents)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


def _are_open(tools: tuple[Tool, ...]) -> bool:
    """Whether no tool states its own strictness."""
    return bool(tools) and all(tool.strict is absent and tool.hosted is absent for tool in tools)
