"""Texts that cite files, as stores held them before citations of files had titles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import cannery
from cannery.messages.identity import digest

NOTE = {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 3}
PART = {"type": "output_text", "text": "So it is.", "annotations": [NOTE]}
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
BODY = {"model": "gpt-5", "input": [{**ITEM, "content": [PART]}]}


def untitled(canister: Any) -> Any:
    """A canister as it was read before."""
    content = canister.content
    cited = tuple(msgspec.structs.replace(each, title=None) for each in content.citations)
    held = msgspec.structs.replace(content, citations=cited)
    return msgspec.structs.replace(canister, held=held, _memo=None)


def test_a_text_stored_before_its_citation_had_a_title_gives_the_same_body(tmp_path: Path) -> None:
    request = cannery.normalize_request(json.dumps(BODY).encode(), "openai_responses")
    (now,) = request.conversation
    before = untitled(now)
    assert now.content.citations[0].title == "a.pdf"
    assert before.content.citations[0].title is None
    with cannery.open_store(str(tmp_path / "store")) as store:
        kept = store.create()
        kept.append(before)
        (loaded,) = store.get(kept.identifier).load()
    assert loaded.content.citations[0].title is None
    assert digest(loaded) == digest(now)
    again = request.replace(conversation=cannery.Conversation([loaded]))
    assert json.loads(cannery.nativize_request(again, "openai_responses").body) == BODY
