"""What the files of agents, chat programs and data sets hold, counted by their shape alone; see ``samples``."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

FORMATS = {
    "ai_studio/prompt.json": "ai_studio",
    "aider/.aider.chat.history.md": "aider",
    "bare_messages/api_conversation_history.json": "bare_messages",
    "bare_messages/chat.json": "bare_messages",
    "bare_messages/chat.jsonl": "bare_messages",
    "bare_messages/chats.jsonl": "bare_messages",
    "batches/anthropic_input.jsonl": "batches",
    "batches/anthropic_results.jsonl": "batches",
    "batches/openai_input.jsonl": "batches",
    "batches/openai_output.jsonl": "batches",
    "claude_code/agent.jsonl": "claude_code",
    "claude_code/session.jsonl": "claude_code",
    "cline/task.messages.json": "cline",
    "codex/rollout.jsonl": "codex",
    "completions/prompts.jsonl": "completions",
    "completions/questions.json": "completions",
    "continue_dev/session.json": "continue_dev",
    "copilot_chat/session.json": "copilot_chat",
    "copilot_chat/session.jsonl": "copilot_chat",
    "cursor/state.vscdb": "cursor",
    "cursor/transcript.jsonl": "cursor",
    "deepseek/conversations.json": "deepseek",
    "gemini_cli/resumed.jsonl": "gemini_cli",
    "gemini_takeout/MyActivity.json": "gemini_takeout",
    "grok/prod-grok-backend.json": "grok",
    "har/calls.har": "har",
    "inspect_eval/log.json": "inspect_eval",
    "inspect_eval/task.eval": "inspect_eval",
    "langchain/dumped.json": "langchain",
    "langchain/messages.json": "langchain",
    "llm_logs/logs.db": "llm_logs",
    "llm_logs/logs.json": "llm_logs",
    "message_rows/chats.jsonl": "message_rows",
    "message_rows/conversations.json": "message_rows",
    "openai_agents/session.db": "openai_agents",
    "opencode/export.json": "opencode",
    "opencode/opencode.db": "opencode",
    "pi/session.jsonl": "pi",
    "preferences/dpo.jsonl": "preferences",
    "preferences/hh.jsonl": "preferences",
    "preferences/openai.jsonl": "preferences",
    "preferences/ultra.jsonl": "preferences",
    "pydantic_ai/messages.json": "pydantic_ai",
    "qwen_code/session.jsonl": "qwen_code",
    "sillytavern/Seraphina.jsonl": "sillytavern",
    "uimessage/chat.json": "uimessage",
    "uimessage/messages.json": "uimessage",
}

Turn = tuple[str, str]
Paths = list[list[Turn]]


def load(path: Path) -> list[Any]:
    """The records of a JSON file."""
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


def rows(path: Path, query: str, *given: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(query, given).fetchall()


def api(messages: list[Any]) -> list[Turn]:
    """Messages of OpenAI's or Anthropic's API as turns."""
    roles = {"system": "supervisor", "developer": "supervisor", "tool": "result"}
    found: list[Turn] = []
    for message in messages:
        role, content = roles.get(message["role"], message["role"]), message.get("content")
        if isinstance(content, list):
            for part in content:
                if part["type"] == "tool_use":
                    found.append(("invocation", part["name"]))
                elif part["type"] == "tool_result":
                    found.append(("result", part["content"]))
                else:
                    found.append((role, part["text"]))
        elif content is not None or role == "assistant":
            found.append((role, content or ""))
        found += [
            ("invocation", call["function"]["name"]) for call in message.get("tool_calls", ())
        ]
    return found


def _bare(path: Path) -> Iterator[Paths]:
    records = load(path)
    for chat in records if isinstance(records[0], list) else [records]:
        yield [api(chat)]


def _preferences(path: Path) -> Iterator[Paths]:
    for row in load(path):
        prompt = row.get("prompt", row.get("input", {}))
        if isinstance(prompt, dict):
            prompt = prompt.get("messages", [])
        asked = [("user", prompt)] if isinstance(prompt, str) else api(prompt)
        found = []
        for key in ("chosen", "rejected", "preferred_output", "non_preferred_output"):
            answer = row.get(key)
            if isinstance(answer, str) and "Human:" in answer:
                human, _, bot = answer.partition("\n\nAssistant: ")
                found.append([("user", human.split("Human: ")[1]), ("assistant", bot)])
            elif isinstance(answer, str):
                found.append([*asked, ("assistant", answer)])
            elif answer is not None:
                said = api(answer)
                found.append(said if said[: len(asked)] == asked else [*asked, *said])
        yield found


def _rows(path: Path) -> Iterator[Paths]:
    for row in load(path):
        yield [api(row.get("messages") or row["conversations"])]


def _completions(path: Path) -> Iterator[Paths]:
    for row in load(path):
        question, answer = (list(row.values()))[:2]
        yield [[("user", question), ("assistant", answer)]]


def _batches(path: Path) -> Iterator[Paths]:
    for line in load(path):
        body = line.get("body") or line.get("params")
        if body:
            yield [api(body["messages"])]
        elif "result" in line:
            yield [[("assistant", part["text"]) for part in line["result"]["message"]["content"]]]
        else:
            choices = line["response"]["body"]["choices"]
            yield [[("assistant", choice["message"]["content"]) for choice in choices]]


def _claude_code(path: Path) -> Iterator[Paths]:
    found: list[Turn] = []
    for line in load(path):
        if line.get("type") in ("user", "assistant"):
            message = line["message"]
            content = message["content"]
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            for part in content:
                if part["type"] == "tool_use":
                    # Calls stand behind an assistant that says nothing.
                    found += [("assistant", ""), ("invocation", part["name"])]
                elif part["type"] == "tool_result":
                    answer = part["content"]
                    parts = [{"text": answer}] if isinstance(answer, str) else answer
                    # Several parts are one content that is no text.
                    found.append(("result", parts[0]["text"] if len(parts) == 1 else ""))
                else:
                    found.append((message["role"], part["text"]))
    yield [found]


def _cline(path: Path) -> Iterator[Paths]:
    (task,) = load(path)
    yield [[("supervisor", task["system_prompt"]), *api(task["messages"])]]


def _codex(path: Path) -> Iterator[Paths]:
    found: list[Turn] = []
    for line in load(path):
        item = line["payload"]
        if line["type"] != "response_item":
            continue
        if item["type"] == "function_call":
            found.append(("invocation", item["name"]))
        elif item["type"] == "function_call_output":
            found.append(("result", item["output"]))
        else:
            role = "supervisor" if item["role"] == "developer" else item["role"]
            found += [(role, part["text"]) for part in item["content"]]
    yield [found]


def _continue(path: Path) -> Iterator[Paths]:
    found: list[Turn] = []
    for step in load(path)[0]["history"]:
        message = step["message"]
        if message["content"]:
            found.append((message["role"], message["content"]))
        found += [("invocation", call["function"]["name"]) for call in message.get("toolCalls", ())]
        for state in step.get("toolCallStates", ()):
            found += [("result", item["content"]) for item in state["output"]]
    yield [found]


def _copilot(path: Path) -> Iterator[Paths]:
    records = load(path)
    session = records[0] if path.suffix == ".json" else None
    if session is None:  # the changes of the sample: its one request, with the last response
        session = {"requests": [{**records[1]["v"][0], "response": records[3]["v"]}]}
    found: list[Turn] = []
    for request in session["requests"]:
        found.append(("user", request["message"]["text"]))
        rounds = request["result"]["metadata"].get("toolCallRounds", ())
        results = request["result"]["metadata"].get("toolCallResults", {})
        for each in rounds:
            found.append(("assistant", each["response"]))
            found += [("invocation", call["name"]) for call in each["toolCalls"]]
            for call in each["toolCalls"]:
                found.append(("result", results[call["id"]]["content"][0]["value"]))
        words = ""
        for item in () if rounds else request["response"]:
            if item.get("kind") == "toolInvocationSerialized":
                found += [("assistant", words), ("invocation", item["toolId"])]
                found.append(("result", item["pastTenseMessage"]["value"]))
                words = ""
            else:
                words += item["value"] if "value" in item else item["content"]["value"]
        found += [("assistant", words)] if words else []
    yield [found]


def _cursor(path: Path) -> Iterator[Paths]:
    if path.suffix == ".jsonl":
        yield [api([{"role": line["role"], **line["message"]} for line in load(path)])]
        return
    held = {key: json.loads(value) for key, value in rows(path, "SELECT * FROM cursorDiskKV")}
    held |= {key: json.loads(value) for key, value in rows(path, "SELECT * FROM ItemTable")}
    for key, value in sorted(held.items()):
        if key.startswith("composerData:"):
            headers = value.get("fullConversationHeadersOnly", ())
            name = value["composerId"]
            bubbles = [held[f"bubbleId:{name}:{each['bubbleId']}"] for each in headers]
            yield from _bubbles(bubbles or value.get("conversation", []))
    for value in held.values():
        for tab in value.get("tabs", ()):
            yield from _bubbles(tab["bubbles"])


def _bubbles(bubbles: list[Any]) -> Iterator[Paths]:
    found: list[Turn] = []
    for bubble in bubbles:
        role = "user" if bubble["type"] in (1, "user") else "assistant"
        found += [(role, "")] if "thinking" in bubble else []
        found.append((role, bubble.get("text") or bubble["rawText"]))
        if "toolFormerData" in bubble:
            tool = bubble["toolFormerData"]
            found += [("invocation", tool["name"]), ("result", tool["result"])]
    if found:
        yield [found]


def _deepseek(path: Path) -> Iterator[Paths]:
    kinds = {"REQUEST": "user", "RESPONSE": "assistant", "THINK": "assistant"}
    for chat in load(path):
        paths: Paths = []
        nodes = chat["mapping"]

        def walk(name: str, before: list[Turn], paths=paths, nodes=nodes) -> None:
            message = nodes[name]["message"] or {"fragments": []}
            said = [
                (kinds[each["type"]], "" if each["type"] == "THINK" else each["content"])
                for each in message["fragments"]
            ]
            for child in nodes[name]["children"]:
                walk(child, before + said)
            if not nodes[name]["children"]:
                paths.append(before + said)

        walk("root", [])
        yield paths


def _grok(path: Path) -> Iterator[Paths]:
    for chat in load(path)[0]["conversations"]:
        said = {each["response"]["_id"]: each["response"] for each in chat["responses"]}
        parents = {each.get("parent_response_id") for each in said.values()}
        found = []
        for name in said:
            if name not in parents:
                turns: list[Turn] = []
                above: str | None = name
                while above is not None:
                    role = "user" if said[above]["sender"] == "human" else "assistant"
                    turns.insert(0, (role, said[above]["message"]))
                    above = said[above].get("parent_response_id")
                found.append(turns)
        yield found


def _ai_studio(path: Path) -> Iterator[Paths]:
    (prompt,) = load(path)
    found = [("supervisor", prompt["systemInstruction"]["text"])]
    for chunk in prompt["chunkedPrompt"]["chunks"]:
        role = "assistant" if chunk["role"] == "model" else "user"
        found.append((role, "" if chunk.get("isThought") else chunk.get("text", "")))
    yield [found]


def _takeout(path: Path) -> Iterator[Paths]:
    for entry in load(path):
        if "safeHtmlItem" in entry:
            html = entry["safeHtmlItem"][0]["html"].replace("&amp;", "&")
            text = re.sub(r"<li>", "- ", re.sub(r"</(p|li)>", "\n", html))
            plain = re.sub(r"<[^>]*>", "", text).strip()
            yield [[("user", entry["title"].removeprefix("Prompted ")), ("assistant", plain)]]


def _sillytavern(path: Path) -> Iterator[Paths]:
    *before, last = load(path)[1:]
    turns = [("user" if line["is_user"] else "assistant", line["mes"]) for line in before]
    yield [[*turns, ("assistant", swipe)] for swipe in last["swipes"]]


def _uimessage(path: Path) -> Iterator[Paths]:
    records = load(path)
    found: list[Turn] = []
    for message in records[0].get("messages") or records:
        for part in message["parts"]:
            if part["type"] == "tool-weather":
                found += [("invocation", "weather"), ("result", '{"sky":"rain"}')]
            elif part["type"] != "step-start":
                found.append((message["role"], part["text"] if part["type"] == "text" else ""))
    yield [found]


def _inspect(path: Path) -> Iterator[Paths]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            samples = [json.loads(archive.read(name)) for name in names]
    else:
        samples = load(path)[0]["samples"]
    for sample in samples:
        found: list[Turn] = []
        for message in sample["messages"]:
            role = {"system": "supervisor", "tool": "result"}.get(message["role"], message["role"])
            content = message["content"]
            if isinstance(content, list):
                found += [(role, ""), (role, sample["attachments"]["long"])]
            else:
                found.append((role, content))
            found += [("invocation", call["function"]) for call in message.get("tool_calls", ())]
        yield [found]


def _har(path: Path) -> Iterator[Paths]:
    answers = iter(["Hello!", "So long."])
    for entry in load(path)[0]["log"]["entries"]:
        if "postData" in entry["request"]:
            body = json.loads(entry["request"]["postData"]["text"])
            yield [[*api(body["messages"]), ("assistant", next(answers))]]


def _langchain(path: Path) -> Iterator[Paths]:
    roles = {"human": "user", "ai": "assistant", "system": "supervisor", "tool": "result"}
    found: list[Turn] = []
    for record in load(path):
        fields = record.get("data") or record["kwargs"]
        content = fields["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        found += [(roles[fields["type"]], text) for text in texts]
        found += [("invocation", call["name"]) for call in fields.get("tool_calls", ())]
    yield [found]


def _llm(path: Path) -> Iterator[Paths]:
    if path.suffix == ".db":
        for (tip,) in rows(path, "SELECT tip_message_hash FROM threads ORDER BY datetime_utc"):
            found: list[Turn] = []
            name = tip
            while name is not None:
                parts = "SELECT type, text, payload FROM parts WHERE message_hash = ?"
                message = "SELECT role, parent_hash FROM messages WHERE hash = ?"
                ((role, above),) = rows(path, message, name)
                for kind, text, payload in reversed(rows(path, parts, name)):
                    told = json.loads(payload or "{}")
                    said = {
                        "text": (role, text),
                        "tool_call": ("invocation", told.get("name")),
                        "tool_result": ("result", told.get("output")),
                    }
                    found.insert(0, said[kind])
                name = above
            yield [found]
        return
    chats: dict[str, list[Turn]] = {}
    for row in load(path):
        turns = chats.setdefault(row["conversation_id"], [])
        turns += [("result", each["output"]) for each in row["tool_results"]]
        turns += [("user", row["prompt"])] if row["prompt"] else []
        turns += [("assistant", row["response"])] if row["response"] else []
        turns += [("invocation", each["name"]) for each in row["tool_calls"]]
    yield from ([turns] for turns in chats.values())


def _agents(path: Path) -> Iterator[Paths]:
    chats: dict[str, list[Turn]] = {}
    for name, data in rows(path, "SELECT session_id, message_data FROM agent_messages ORDER BY id"):
        item = json.loads(data)
        turns = chats.setdefault(name, [])
        kind = item.get("type", "message")
        if kind == "message" and isinstance(item["content"], str):
            turns.append((item["role"], item["content"]))
        elif kind == "message":
            turns += [(item["role"], part["text"]) for part in item["content"]]
        elif kind == "function_call":
            turns.append(("invocation", item["name"]))
        else:
            turns.append(("assistant", "") if kind == "reasoning" else ("result", item["output"]))
    yield from ([turns] for turns in chats.values())


def _opencode(path: Path) -> Iterator[Paths]:
    if path.suffix == ".db":
        query = (
            "SELECT m.data, p.data FROM part p JOIN message m ON m.id = p.message_id ORDER BY p.id"
        )
        parts = [(json.loads(info)["role"], json.loads(part)) for info, part in rows(path, query)]
    else:
        messages = load(path)[0]["messages"]
        parts = [(each["info"]["role"], part) for each in messages for part in each["parts"]]
    found: list[Turn] = []
    for role, part in parts:
        if part["type"] == "text":
            found.append((role, part["text"]))
        elif part["type"] == "tool":
            state = part["state"]
            found.append(("invocation", part["tool"]))
            found.append(("result", state.get("output", state.get("error"))))
    yield [found]


def _pi(path: Path) -> Iterator[Paths]:
    found: list[Turn] = []
    for line in load(path):
        for part in line["message"]["content"] if line["type"] == "message" else ():
            role = line["message"]["role"]
            if part["type"] == "toolCall":
                found.append(("invocation", part["name"]))
            else:
                found.append(("result" if role == "toolResult" else role, part["text"]))
    yield [found]


def _pydantic(path: Path) -> Iterator[Paths]:
    roles = {"system-prompt": "supervisor", "user-prompt": "user", "text": "assistant"}
    found: list[Turn] = [("supervisor", "short")]
    for message in load(path):
        for part in message["parts"]:
            kind = part["part_kind"]
            if kind == "tool-call":
                found.append(("invocation", part["tool_name"]))
            else:
                found.append((roles.get(kind, "result"), part["content"]))
    yield [found]


def _qwen(path: Path) -> Iterator[Paths]:
    found: list[Turn] = []
    for line in load(path):
        for part in line["message"]["parts"] if "message" in line else ():
            if "functionCall" in part:
                found += [("assistant", ""), ("invocation", part["functionCall"]["name"])]
            elif "functionResponse" in part:
                found.append(("result", part["functionResponse"]["response"]["output"]))
            else:
                found.append((line["type"], part["text"]))
    yield [found]


def _gemini_resumed(path: Path) -> Iterator[Paths]:
    said: dict[str, list[Turn]] = {}
    answered: set[str] = set()
    for line in load(path):
        for message in line.get("$set", {}).get("messages", ()) or [line]:
            if message.get("type") not in ("user", "gemini"):
                continue
            content = message["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            role = "user" if message["type"] == "user" else "assistant"
            turns: list[Turn] = []
            for part in parts:
                answer = part.get("functionResponse")
                if answer is None:
                    turns.append((role, part["text"]))
                elif answer["id"] not in answered:
                    turns.append(("result", answer["response"]["error"]))
            for call in message.get("toolCalls", ()):
                turns.append(("invocation", call["name"]))
                for answer in call["result"]:
                    answered.add(call["id"])
                    turns.append(("result", answer["functionResponse"]["response"]["error"]))
            said[message["id"]] = turns
    yield [[turn for turns in said.values() for turn in turns]]


def _aider(path: Path) -> Iterator[Paths]:
    for chat in path.read_text("utf-8").split("# aider chat started at")[1:]:
        found: list[Turn] = []
        # A line of the user or of the program ends what the model says.
        for block in re.split(r"(^(?:####|>).*$)", chat.partition("\n")[2], flags=re.MULTILINE):
            if block.startswith("#### "):
                found.append(("user", block[5:].strip()))
            elif block.strip() and not block.startswith(">"):
                found.append(("assistant", block.strip()))
        yield [found]


READERS = {
    "ai_studio": _ai_studio,
    "aider": _aider,
    "bare_messages": _bare,
    "batches": _batches,
    "claude_code": _claude_code,
    "cline": _cline,
    "codex": _codex,
    "completions": _completions,
    "continue_dev": _continue,
    "copilot_chat": _copilot,
    "cursor": _cursor,
    "deepseek": _deepseek,
    "gemini_cli": _gemini_resumed,
    "gemini_takeout": _takeout,
    "grok": _grok,
    "har": _har,
    "inspect_eval": _inspect,
    "langchain": _langchain,
    "llm_logs": _llm,
    "message_rows": _rows,
    "openai_agents": _agents,
    "opencode": _opencode,
    "pi": _pi,
    "preferences": _preferences,
    "pydantic_ai": _pydantic,
    "qwen_code": _qwen,
    "sillytavern": _sillytavern,
    "uimessage": _uimessage,
}
