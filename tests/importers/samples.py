"""Every sample with what it holds, computed here from its JSON by means of nothing but its shape."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.importers import more_samples

DATA = Path(__file__).resolve().parent.parent / "data" / "imports"

# The format that each file has; sharegpt/identity.json is an Alpaca file, whatever its folder says.
FORMATS = {
    "alpaca/alpaca_en_demo-60.json": "alpaca",
    "chatgpt/chatgpt-citations.json": "chatgpt",
    "chatgpt/chatgpt-export.json": "chatgpt",
    "chatgpt/chatgpt-tree.json": "chatgpt",
    "chatgpt/conversations.json": "chatgpt",
    "chatgpt/sample-00.json": "chatgpt",
    "chatgpt/sample-01.json": "chatgpt",
    "claude_ai/claude-conversations.json": "claude_ai",
    "claude_ai/sample-00.json": "claude_ai",
    "claude_code/test-session.jsonl": "claude_code",
    "codex/test-session-rollout.jsonl": "codex",
    "gemini/gemini-conversations.json": "message_lists",
    "gemini_cli/session.jsonl": "gemini_cli",
    "goose/test-session.jsonl": "goose",
    "jan/messages.jsonl": "jan",
    "librechat/chatbotui-export.json": "message_lists",
    "librechat/librechat-export.json": "librechat",
    "librechat/librechat-linear.json": "librechat",
    "librechat/librechat-opts-nonr-branches.json": "librechat",
    "librechat/librechat-tree.json": "librechat",
    "llamafactory/reason_tool_use_demo_50.jsonl": "llamafactory",
    "llamafactory/v1_multimodal_demo.jsonl": "llamafactory",
    "llamafactory/v1_sft_demo.jsonl": "llamafactory",
    "lmstudio/test-conversation.json": "lmstudio",
    "oasst/realistic_seed_data.json": "oasst",
    "openai_finetuning/toy_chat_fine_tuning.jsonl": "openai_finetuning",
    "openwebui/webui.db": "openwebui",
    "sharegpt/dpo-10.json": "sharegpt",
    "sharegpt/glaive_toolcall-60.json": "sharegpt",
    "sharegpt/identity.json": "alpaca",
    **more_samples.FORMATS,
}

Turn = tuple[str, str]


def values(name: str) -> list[Any]:
    """The records of a file."""
    path = DATA / name
    if path.suffix == ".db":
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT chat FROM chat").fetchall()
        return [json.loads(chat) for (chat,) in rows]
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


def expected(name: str) -> list[list[list[Turn]]]:
    """For each conversation of a file its root-to-leaf paths, each a list of (role, text); only what is text."""
    if name in more_samples.FORMATS:
        return list(more_samples.READERS[FORMATS[name]](DATA / name))
    return [list(paths) for paths in _READERS[FORMATS[name]](values(name))]


def paths_of(parents: dict[str, str | None], said: dict[str, list[Turn]]) -> list[list[Turn]]:
    """Every root-to-leaf path of a tree that says something."""
    inner = set(parents.values())
    found = []
    for leaf in parents:
        if leaf in inner:
            continue
        path: list[Turn] = []
        name: str | None = leaf
        while name in parents:
            path = said[name] + path
            name = parents[name]
        if path:
            found.append(path)
    return found


def _alpaca(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for record in records:
        asked = "\n".join(filter(None, (record["instruction"], record["input"])))
        yield [[("user", asked), ("assistant", record["output"])]]


def _chatgpt(records: list[Any]) -> Iterator[list[list[Turn]]]:
    roles = {"user": "user", "assistant": "assistant", "system": "supervisor", "tool": "result"}
    for record in records:
        parents: dict[str, str | None] = {}
        said: dict[str, list[Turn]] = {}
        for name, node in record["mapping"].items():
            parents.setdefault(name, node.get("parent"))
            for child in node.get("children", ()):
                parents[child] = name
            message = node.get("message") or {"content": {}, "author": {"role": "user"}}
            content, role = message["content"], roles[message["author"]["role"]]
            kind = content.get("content_type")
            words = content.get("parts") or [content.get("text", content.get("result", ""))]
            is_call = role == "assistant" and message.get("recipient") not in ("all", None)
            known = kind in ("text", "code", "tether_quote", "tether_browsing_display")
            said[name] = []
            if known and (any(words) or role == "result"):
                said[name] = [("invocation" if is_call else role, word) for word in words]
            elif kind and not known:
                said[name] = [(role, "")]
        yield paths_of({name: parents[name] for name in record["mapping"]}, said)


def _claude_ai(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for record in records:
        path: list[Turn] = []
        for message in record["chat_messages"]:
            sender = message.get("sender", message.get("role"))
            role = "user" if sender in ("human", "user") else "assistant"
            if role == "user":
                path += [
                    ("document", a["extracted_content"]) for a in message.get("attachments", ())
                ]
                path += [("user", "") for _ in message.get("files", ())]
            content = message["content"]
            path += [(role, content)] if isinstance(content, str) else [(role, "") for _ in content]
        yield [path]


def _claude_code(records: list[Any]) -> Iterator[list[list[Turn]]]:
    lines = [record["message"] for record in records if "message" in record]
    yield [[(line["role"], part["text"]) for line in lines for part in line["content"]]]


def _codex(records: list[Any]) -> Iterator[list[list[Turn]]]:
    items = [record["payload"] for record in records if record["type"] == "response_item"]
    yield [[(item["role"], part["text"]) for item in items for part in item["content"]]]


def _message_lists(records: list[Any]) -> Iterator[list[list[Turn]]]:
    roles = {"model": "assistant"}
    for record in records:
        for chat in record.get("history", [record]):
            system = [("supervisor", chat["prompt"])] if chat.get("prompt") else []
            turns = [(roles.get(m["role"], m["role"]), m["content"]) for m in chat["messages"]]
            yield [[*system, *turns]]


def _librechat(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for record in records:
        parents: dict[str, str | None] = {}
        said: dict[str, list[Turn]] = {}

        def walk(messages: list[Any], above: str | None, parents=parents, said=said) -> None:
            for message in messages:
                name = message["messageId"]
                parents[name] = above or message["parentMessageId"]
                said[name] = [
                    ("user" if message["isCreatedByUser"] else "assistant", message["text"])
                ]
                walk(message.get("children", []), name)

        walk(record["messages"], None)
        prefix = (record.get("options") or {}).get("promptPrefix")
        system = [("supervisor", prefix)] if prefix else []
        yield [[*system, *path] for path in paths_of(parents, said)]


def _llamafactory(records: list[Any]) -> Iterator[list[list[Turn]]]:
    roles = {"system": "supervisor", "tool": "result"}
    for record in records:
        path: list[Turn] = []
        for message in record["messages"]:
            role = roles.get(message["role"], message["role"])
            for part in message["content"]:
                if part["type"] == "tool_call":
                    path.append(("invocation", json.loads(part["value"])["name"]))
                else:
                    path.append((role, part["value"] if part["type"] == "text" else ""))
        yield [path]


def _lmstudio(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for record in records:
        path: list[Turn] = []
        for message in record["messages"]:
            version = message["versions"][message["currentlySelected"]]
            blocks = version.get("content") or [b for s in version["steps"] for b in s["content"]]
            path += [(version["role"], block["text"]) for block in blocks]
        yield [path]


def _oasst(records: list[Any]) -> Iterator[list[list[Turn]]]:
    rows = {record["user_message_id"]: record for record in records}

    def root(name: str) -> str:
        above = rows[name]["parent_message_id"]
        return name if above is None else root(above)

    trees: dict[str, dict[str, str | None]] = {}
    for name, row in rows.items():
        trees.setdefault(root(name), {})[name] = row["parent_message_id"]
    for parents in trees.values():
        said = {
            name: [
                ("user" if rows[name]["role"] == "prompter" else "assistant", rows[name]["text"])
            ]
            for name in parents
        }
        yield paths_of(parents, said)


def _finetuning(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for record in records:
        roles = {"system": "supervisor"}
        yield [[(roles.get(m["role"], m["role"]), m["content"]) for m in record["messages"]]]


def _openwebui(records: list[Any]) -> Iterator[list[list[Turn]]]:
    for chat in records:
        yield [[(message["role"], message["content"]) for message in chat["messages"]]]


def _sharegpt(records: list[Any]) -> Iterator[list[list[Turn]]]:
    roles = {
        "human": "user",
        "gpt": "assistant",
        "observation": "result",
        "function_call": "invocation",
    }
    for record in records:
        path = []
        for turn in record["conversations"]:
            role = roles.get(turn["from"], "supervisor")
            value = json.loads(turn["value"])["name"] if role == "invocation" else turn["value"]
            path.append((role, value))
        ends = [record[key] for key in ("chosen", "rejected") if key in record]
        yield [[*path, (roles[end["from"]], end["value"])] for end in ends] or [path]


def _gemini_cli(records: list[Any]) -> Iterator[list[list[Turn]]]:
    said: dict[str, list[Turn]] = {}
    parents: dict[str, str | None] = {}
    line: list[str] = []
    for record in records:
        if "$rewindTo" in record:
            line = line[: line.index(record["$rewindTo"])]
        if record.get("type") not in ("user", "gemini"):
            continue
        name, content = record["id"], record["content"]
        if name not in line:
            parents[name] = line[-1] if line else None
            line.append(name)
        role = "user" if record["type"] == "user" else "assistant"
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        thoughts = [("assistant", "") for _ in record.get("thoughts", [])]
        calls = record.get("toolCalls", [])
        answers = [
            ("result", answer["functionResponse"]["response"]["output"])
            for call in calls
            for answer in call.get("result", [])
        ]
        called = [("invocation", call["name"]) for call in calls]
        said[name] = [*thoughts, (role, text), *called, *answers]
    yield paths_of(parents, said)


def _goose(records: list[Any]) -> Iterator[list[list[Turn]]]:
    yield [[(line["role"], item["text"]) for line in records for item in line["content"]]]


def _jan(records: list[Any]) -> Iterator[list[list[Turn]]]:
    path: list[Turn] = []
    for record in records:
        calls = [item for item in record["content"] if item["type"] == "tool_call"]
        texts = [item["text"]["value"] for item in record["content"] if item["type"] == "text"]
        path += [(record["role"], text) for text in texts]
        path += [("invocation", call["tool_name"]) for call in calls]
        path += [("result", json.dumps(call["output"], separators=(",", ":"))) for call in calls]
    yield [path]


_READERS = {
    "gemini_cli": _gemini_cli,
    "goose": _goose,
    "jan": _jan,
    "alpaca": _alpaca,
    "chatgpt": _chatgpt,
    "claude_ai": _claude_ai,
    "claude_code": _claude_code,
    "codex": _codex,
    "message_lists": _message_lists,
    "librechat": _librechat,
    "llamafactory": _llamafactory,
    "lmstudio": _lmstudio,
    "oasst": _oasst,
    "openai_finetuning": _finetuning,
    "openwebui": _openwebui,
    "sharegpt": _sharegpt,
}
