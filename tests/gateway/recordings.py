"""Sessions of agents as they send them, small: what each program puts around what is said, and what it changes.

A recording has the shape of those in ``../shared/sessions``: requests in order with their headers, bodies and replies,
and what must be kept of them. Here they are made from a script, once for each way in which programs tell a session,
change their instructions, leave out thoughts, summarise, fork, and ask for titles.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Item = dict[str, Any]
_numbers = itertools.count(1)

ONE = "Please write one.txt with alpha"
TWO = "Next write two.txt with beta"
THANKS = "thanks, only say hello"


class Said(NamedTuple):
    """A message: who says it, its texts, the call that it makes or answers, and a thought before it."""

    role: str
    texts: tuple[str, ...] = ()
    call: str = ""
    is_thoughtful: bool = False


def user(*texts: str) -> Said:
    return Said("user", texts)


def answer(text: str, call: str = "", *, is_thoughtful: bool = False) -> Said:
    return Said("assistant", (text,), call, is_thoughtful)


def result(call: str, text: str = "written") -> Said:
    return Said("result", (text,), call)


# --- dialects ------------------------------------------------------------------------------------


def messages(history: list[Said], system: list[str]) -> Item:
    """A body of Anthropic Messages; the last block carries a cache mark, as Claude Code has it."""
    turns: list[Item] = []
    for said in history:
        if said.role == "result":
            blocks: Any = [
                {"type": "tool_result", "tool_use_id": said.call, "content": said.texts[0]}
            ]
            turns.append({"role": "user", "content": blocks})
            continue
        blocks = [{"type": "text", "text": text} for text in said.texts if text]
        if said.is_thoughtful:
            signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
            blocks.insert(0, signed)
        if said.call:
            blocks.append(
                {"type": "tool_use", "id": said.call, "name": "Write", "input": {"file": said.call}}
            )
        turns.append({"role": said.role, "content": blocks})
    for turn in turns[1:-1]:
        # What was a list while it was last is a string afterwards.
        if (
            turn["role"] == "user"
            and turn["content"][0]["type"] == "text"
            and len(turn["content"]) == 1
        ):
            turn["content"] = turn["content"][0]["text"]
    turns = copy.deepcopy(turns)
    turns[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1000,
        "system": [{"type": "text", "text": text} for text in system],
        "messages": turns,
    }


def messages_reply(said: Said) -> Item:
    content: list[Item] = [{"type": "text", "text": text} for text in said.texts]
    if said.is_thoughtful:
        content.insert(0, {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})
    if said.call:
        content.append(
            {"type": "tool_use", "id": said.call, "name": "Write", "input": {"file": said.call}}
        )
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "tool_use" if said.call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def chat(history: list[Said], system: list[str]) -> Item:
    turns: list[Item] = [{"role": "system", "content": text} for text in system]
    for said in history:
        if said.role == "result":
            turns.append({"role": "tool", "tool_call_id": said.call, "content": said.texts[0]})
        elif said.call:
            turns.append(
                {"role": "assistant", "content": said.texts[0], "tool_calls": [_function(said)]}
            )
        else:
            turns += [{"role": said.role, "content": text} for text in said.texts]
    return {"model": "gpt-5", "messages": turns}


def _function(said: Said) -> Item:
    arguments = f'{{"file": "{said.call}"}}'
    return {
        "id": said.call,
        "type": "function",
        "function": {"name": "write", "arguments": arguments},
    }


def chat_reply(said: Said) -> Item:
    message: Item = {"role": "assistant", "content": said.texts[0]}
    if said.call:
        message["tool_calls"] = [_function(said)]
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if said.call else "stop"}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def responses(history: list[Said], system: list[str]) -> Item:
    items: list[Item] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
        for text in system
    ]
    for said in history:
        if said.role == "result":
            items.append(
                {"type": "function_call_output", "call_id": said.call, "output": said.texts[0]}
            )
            continue
        kind = "output_text" if said.role == "assistant" else "input_text"
        role = "developer" if said.role == "developer" else said.role
        if said.is_thoughtful:
            items.append(
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
            )
        items += [
            {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
            for text in said.texts
        ]
        if said.call:
            items.append({"type": "function_call", "call_id": said.call, **_responses_call(said)})
    return {"model": "gpt-5", "store": False, "input": items}


def _responses_call(said: Said) -> Item:
    return {"name": "write", "arguments": f'{{"file": "{said.call}", "task": "{said.texts[0]}"}}'}


def responses_reply(said: Said) -> Item:
    number = next(_numbers)
    output: list[Item] = []
    if said.is_thoughtful:
        output.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"})
    part = {"type": "output_text", "text": said.texts[0], "annotations": []}
    message = {"type": "message", "id": f"msg_{number}", "status": "completed"}
    output.append({**message, "role": "assistant", "content": [part]})
    if said.call:
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": said.call}
        output.append({**call, "status": "completed", **_responses_call(said)})
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5",
        "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }


def gemini(history: list[Said], system: list[str]) -> Item:
    contents: list[Item] = []
    for said in history:
        if said.role == "result":
            made = {"id": said.call, "name": "write", "response": {"output": said.texts[0]}}
            contents.append({"role": "user", "parts": [{"functionResponse": made}]})
            continue
        parts: list[Item] = [{"text": text} for text in said.texts if text]
        if said.call:
            call: Item = {
                "functionCall": {"id": said.call, "name": "write", "args": {"f": said.call}}
            }
            if said.is_thoughtful:
                call["thoughtSignature"] = "c2ln"
            parts.append(call)
        contents.append({"role": "model" if said.role == "assistant" else "user", "parts": parts})
    instructions = {"parts": [{"text": text} for text in system]}
    return {"contents": contents, "systemInstruction": instructions}


def gemini_reply(said: Said) -> Item:
    content = gemini([said], [])["contents"][0]
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}


class Wire(NamedTuple):
    path: str
    body: Callable[[list[Said], list[str]], Item]
    reply: Callable[[Said], Item]


WIRES = {
    "anthropic_messages": Wire("/v1/messages", messages, messages_reply),
    "openai_chat": Wire("/v1/chat/completions", chat, chat_reply),
    "openai_responses": Wire("/v1/responses", responses, responses_reply),
    "gemini_generate": Wire("/v1beta/models/gemini-2.5-pro:generateContent", gemini, gemini_reply),
}


# --- recordings ----------------------------------------------------------------------------------


class Recording:
    """A session that grows request by request."""

    def __init__(self, name: str, dialect: str, headers: Item | None = None) -> None:
        self.name = name
        self.dialect = dialect
        self.headers = headers or {}
        self.requests: list[Item] = []
        self.expected: Item = {
            "conversations": {"main": 1, "side": 0, "subagent": 0},
            "sessions": [],
        }
        self.turn = 1

    def ask(
        self,
        history: list[Said],
        said: Said,
        *,
        system: list[str] | None = None,
        kind: str = "main",
        session: str | None = None,
        headers: Item | None = None,
        tools: bool = True,
        **fields: Any,
    ) -> None:
        """Add a request and its reply."""
        wire = WIRES[self.dialect]
        body = {**wire.body(history, ["Be brief."] if system is None else system), **fields}
        if tools and self.dialect == "openai_chat":
            function = {"name": "write", "parameters": {"type": "object", "properties": {}}}
            body["tools"] = [{"type": "function", "function": function}]
        told = {**self.headers, **(headers or {}), "content-type": "application/json"}
        if self.dialect == "anthropic_messages":
            told["anthropic-version"] = "2023-06-01"
        self.requests.append(
            {
                "turn": self.turn,
                "kind": kind,
                "session": session,
                "path": wire.path,
                "headers": [[name, value] for name, value in told.items() if value is not None],
                "body": body,
                "reply": {"status": 200, "json": wire.reply(said)},
            }
        )

    def expect(self, name: str, *said: str, **more: Any) -> Recording:
        """Say what the conversation of a session must hold."""
        self.expected["sessions"].append({"name": name, "said": list(said), **more})
        return self


Around = Callable[[int, str], tuple[list[str], list[str]]]
"""The instructions, and the setup before the first question, of a request in a turn."""


def work(
    recording: Recording,
    around: Around,
    *,
    first: str = ONE,
    change: Callable[[list[Said], int], list[Said]] | None = None,
    session: str | None = None,
    is_thoughtful: bool = False,
    **fields: Any,
) -> list[Said]:
    """Three turns: a file is written, then another, then thanks; each turn in a process of its own."""
    history: list[Said] = []
    tail = f"{recording.name}{session or ''}"

    def ask(said: Said) -> None:
        system, setup = around(recording.turn, first)
        asked = [user(*setup, *history[0].texts), *history[1:]]
        asked = asked if change is None else change(asked, recording.turn)
        recording.ask(asked, said, system=system, session=session, **fields)
        history.append(said)

    for number, (prompt, file) in enumerate(((first, "one"), (TWO, "two")), 1):
        recording.turn = number
        call = f"call_{file}_{tail}"
        history.append(user(prompt))
        ask(answer(f"I will write {file}.txt now.", call, is_thoughtful=is_thoughtful))
        history.append(result(call))
        ask(answer(f"Done: wrote {file}.txt.", is_thoughtful=is_thoughtful))
    recording.turn = 3
    history.append(user(THANKS))
    ask(answer("Hello.", is_thoughtful=is_thoughtful))
    return history


EVERYTHING = (
    ONE,
    "I will write one.txt now.",
    "Done: wrote one.txt.",
    TWO,
    "I will write two.txt now.",
    "Done: wrote two.txt.",
    THANKS,
    "Hello.",
)


def _reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>\n"


def _plain(_turn: int, _first: str) -> tuple[list[str], list[str]]:
    return ["Be brief."], []


def _claude(session: str, **more: str) -> Item:
    agent = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
    return {**agent, "x-claude-code-session-id": session, **more}


def _without_thoughts(history: list[Said], turn: int) -> list[Said]:
    """What Claude Code sends once another model is asked: no thought of the one before."""
    if turn == 1:
        return history
    return [said._replace(is_thoughtful=False) for said in history]


def claude_recordings() -> Iterator[Recording]:
    """Claude Code: instructions and reminders that change while the session id stays."""

    def git(turn: int, _: str) -> tuple[list[str], list[str]]:
        return ["You are an agent.", f"gitStatus: {'M a' * turn}"], [_reminder("Skills")]

    def model(turn: int, _: str) -> tuple[list[str], list[str]]:
        return [f"You are powered by {'Sonnet' if turn == 1 else 'Opus'}."], [_reminder("Skills")]

    def memory(turn: int, _: str) -> tuple[list[str], list[str]]:
        return ["You are an agent."], [_reminder("# claudeMd\n" + "a line\n" * (turn - 1))]

    def day(turn: int, _: str) -> tuple[list[str], list[str]]:
        return ["You are an agent."], [_reminder(f"Today's date is 2026-11-1{turn}.")]

    for name, around, change in (
        ("git", git, None),
        ("model", model, _without_thoughts),
        ("memory", memory, None),
        ("day", day, None),
    ):
        recording = Recording(f"claude-{name}", "anthropic_messages", _claude(f"s-{name}"))
        work(recording, around, change=change, is_thoughtful=True)
        yield recording.expect("main", *EVERYTHING)
    yield claude_title()
    yield claude_compaction()
    yield claude_fork()
    yield claude_subagent()
    yield claude_unrelated()


def claude_title() -> Recording:
    """A title that is asked for before the first turn; its answer names the conversation."""
    recording = Recording("claude-title", "anthropic_messages", _claude("s-title"))
    recording.ask(
        [user(f"<session>\n{ONE}\n</session>\n\nWrite the title in the language of the user.")],
        answer('{"title": "Write a text file"}'),
        system=["Generate a concise, sentence-case title (3-7 words) that captures the topic."],
        kind="side:title",
        tools=False,
    )
    work(recording, _plain)
    recording.expected["conversations"]["side"] = 1
    recording.expected["title"] = "Write a text file"
    return recording.expect("main", *EVERYTHING)


def claude_compaction() -> Recording:
    """``/compact``: the summary is asked for without the last answer, and takes the place of the history."""
    recording = Recording("claude-compact", "anthropic_messages", _claude("s-compact"))
    around: Around = lambda _turn, _first: (["You are an agent."], [_reminder("Skills")])  # noqa: E731
    history: list[Said] = [user(_reminder("Skills"), ONE)]
    system = around(1, "")[0]
    first = answer("I will write one.txt now.", "call_compact")
    recording.ask(history, first, system=system)
    history += [first, result("call_compact")]
    done = answer("Done: wrote one.txt.")
    recording.ask(history, done, system=system)
    recording.turn = 2
    summing = "CRITICAL: Respond with TEXT ONLY.\nYour task is to create a detailed summary of the conversation"
    recording.ask(
        [*history[:-1], Said("result", history[-1].texts, history[-1].call), user(summing)],
        answer("<summary>one.txt was written.</summary>"),
        system=system,
        kind="side:compact",
    )
    recording.turn = 3
    summary = "This session is being continued from a previous conversation that ran out of context.\nSummary: one.txt."
    after = [
        user(_reminder("Today's date is 2026-11-18."), summary),
        done,
        user(_reminder("one.txt was read again"), "<command-name>/compact</command-name>"),
        answer("No response requested."),
        user(TWO),
    ]
    second = answer("I will write two.txt now.", "call_compact_two")
    recording.ask(after, second, system=system)
    after += [second, result("call_compact_two")]
    last = answer("Done: wrote two.txt.")
    recording.ask(after, last, system=system)
    recording.turn = 4
    recording.ask([*after, last, user(THANKS)], answer("Hello."), system=system)
    recording.expected |= {"compactions": 1}
    recording.expect("before", ONE, "I will write one.txt now.", "Done: wrote one.txt.")
    return recording.expect(
        "after",
        TWO,
        "I will write two.txt now.",
        "Done: wrote two.txt.",
        THANKS,
        "Hello.",
        linked_to="before",
    )


def claude_fork() -> Recording:
    """``--fork-session``: another id, and the history of the first session; both go on."""
    recording = Recording("claude-fork", "anthropic_messages", _claude("s-origin"))
    history = [user(ONE)]
    said = answer("I will think of one.")
    recording.ask(history, said, session="origin")
    history.append(said)
    recording.turn = 2
    branch = _claude("s-branch")
    forked = [*history, user("In the fork: go left")]
    left = answer("Going left.")
    recording.ask(forked, left, session="fork", headers=branch)
    recording.turn = 3
    recording.ask(
        [*history, user("At the origin: go right")], answer("Going right."), session="origin"
    )
    recording.ask(
        [*forked, left, user("Further in the fork")],
        answer("Further left."),
        session="fork",
        headers=branch,
    )
    recording.expected["conversations"]["main"] = 2
    recording.expect(
        "origin", ONE, "I will think of one.", "At the origin: go right", "Going right."
    )
    return recording.expect(
        "fork",
        ONE,
        "I will think of one.",
        "In the fork: go left",
        "Going left.",
        "Further in the fork",
        "Further left.",
        linked_to="origin",
    )


def claude_subagent() -> Recording:
    """A sub-agent has the session id of its parent, and an id of its own beside it."""
    recording = Recording("claude-subagent", "anthropic_messages", _claude("s-sub"))
    history = [user("Use a sub-agent for this")]
    started = answer("I will hand this over.", "write a file for me")
    recording.ask(history, started)
    task = [user(_reminder("Skills"), "write a file for me")]
    writing = answer("I will write sub.txt now.", "call_of_the_sub_agent")
    inner: Item = {
        "kind": "subagent",
        "system": ["You are an agent for Claude Code."],
        "headers": {"x-claude-code-agent-id": "a0123456789abcdef"},
    }
    recording.ask(task, writing, **inner)
    done = [*task, writing, result("call_of_the_sub_agent")]
    recording.ask(done, answer("Done: wrote sub.txt."), **inner)
    history += [started, result("write a file for me", "Done: wrote sub.txt.")]
    finished = answer("The sub-agent has finished.")
    recording.ask(history, finished)
    recording.turn = 2
    recording.ask([*history, finished, user(THANKS)], answer("Hello."))
    recording.expected["conversations"]["subagent"] = 1
    said = ("I will hand this over.", "The sub-agent has finished.", THANKS, "Hello.")
    return recording.expect("main", "Use a sub-agent for this", *said)


def claude_unrelated() -> Recording:
    """Two sessions that begin with the same setup and the same words."""
    recording = Recording("claude-unrelated", "anthropic_messages", _claude("-"))
    setup = _reminder("The same skills")
    greeting = answer("Hello! How can I help?")
    for turn, name in enumerate("AB", 1):
        recording.turn = turn
        recording.ask([user(setup, "hi")], greeting, session=name, headers=_claude(f"s-{name}"))
    for name, prompt in (("A", ONE), ("B", TWO)):
        recording.turn += 1
        history = [user(setup, "hi"), greeting, user(prompt)]
        said = answer(f"Something for {name}.")
        recording.ask(history, said, session=name, headers=_claude(f"s-{name}"))
        recording.expect(name, "hi", greeting.texts[0], prompt, said.texts[0])
    recording.expected["conversations"]["main"] = 2
    return recording


def _codex(thread: str, window: int = 0, kind: str = "turn", **more: str) -> Item:
    metadata = f'{{"session_id":"{thread}","thread_id":"{thread}","request_kind":"{kind}"}}'
    return {
        "user-agent": "codex_exec/0.169.0 (Debian)",
        "session-id": thread,
        "thread-id": thread,
        "x-client-request-id": thread,
        "x-codex-window-id": f"{thread}:{window}",
        "x-codex-turn-metadata": metadata,
        **more,
    }


_ENVIRONMENT = "<environment_context>\n  <cwd>/home/user</cwd>\n</environment_context>"


def codex_recordings() -> Iterator[Recording]:
    """Codex: one thread id, and what stands before the first prompt is a user message."""
    around: Around = lambda _turn, _first: (["You are a coding agent."], [_ENVIRONMENT])  # noqa: E731

    def switched(history: list[Said], turn: int) -> list[Said]:
        if turn < 2:
            return history
        at = max(index for index, said in enumerate(history) if said.role == "user")
        notice = Said(
            "developer", ("<model_switch>\nThe model is another one now.\n</model_switch>",)
        )
        return [*history[:at], notice, *history[at:]]

    recording = Recording("codex-model", "openai_responses", _codex("t-model"))
    work(recording, around, change=switched, is_thoughtful=True)
    yield recording.expect("main", *EVERYTHING)
    yield codex_compaction()
    yield codex_subagent()
    recording = Recording("codex-unrelated", "openai_responses", _codex("-"))
    for name, prompt in (("A", ONE), ("B", TWO)):
        headers = _codex(f"t-{name}")
        said = answer(f"Something for {name}.")
        recording.ask([user(_ENVIRONMENT, prompt)], said, session=name, headers=headers)
        recording.expect(name, prompt, said.texts[0])
    recording.expected["conversations"]["main"] = 2
    yield recording


def codex_compaction() -> Recording:
    """The questions stay, the answers go, and a summary follows; the number of the window goes up."""
    recording = Recording("codex-compact", "openai_responses", _codex("t-compact"))
    history = [user(_ENVIRONMENT, ONE)]
    said = answer("Done: wrote one.txt.", is_thoughtful=True)
    recording.ask(history, said)
    recording.turn = 2
    recording.ask(
        [
            *history,
            said,
            user("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary."),
        ],
        answer("one.txt was written."),
        kind="side:compact",
        headers=_codex("t-compact", kind="compaction"),
    )
    summary = "Another language model started to solve this problem. <summary>one.txt was written.</summary>"
    after = [user(_ENVIRONMENT, ONE, summary), user(TWO)]
    second = answer("Done: wrote two.txt.")
    recording.ask(after, second, headers=_codex("t-compact", 1))
    recording.turn = 3
    recording.ask([*after, second, user(THANKS)], answer("Hello."), headers=_codex("t-compact", 1))
    recording.expected["compactions"] = 1
    recording.expect("before", ONE, "Done: wrote one.txt.")
    return recording.expect(
        "after", TWO, "Done: wrote two.txt.", THANKS, "Hello.", linked_to="before"
    )


def codex_subagent() -> Recording:
    """A sub-agent has a thread of its own; session id and cache key are its parent's."""
    recording = Recording("codex-subagent", "openai_responses", _codex("t-sub"))
    history = [user(_ENVIRONMENT, "Use a sub-agent for this")]
    started = answer("write a file for me", "call_spawn")
    recording.ask(history, started)
    inner = _codex(
        "t-child",
        **{
            "session-id": "t-sub",
            "x-codex-parent-thread-id": "t-sub",
            "x-openai-subagent": "collab_spawn",
        },
    )
    task = [user(_ENVIRONMENT, "write a file for me")]
    recording.ask(task, answer("Done: wrote sub.txt."), kind="subagent", headers=inner)
    history += [started, result("call_spawn")]
    recording.ask(history, answer("The sub-agent has finished."))
    recording.expected["conversations"]["subagent"] = 1
    said = ("write a file for me", "The sub-agent has finished.")
    return recording.expect("main", "Use a sub-agent for this", *said)


def other_recordings() -> Iterator[Recording]:
    """Programs that tell a session in a header of their own, or none at all."""
    pi = {"user-agent": "OpenAI/JS 6.26.0", "session_id": "pi-1", "x-client-request-id": "pi-1"}
    sdk = {"user-agent": "Anthropic/JS 0.91.1"}
    for name, dialect, headers in (
        ("pi-responses", "openai_responses", pi),
        ("pi-messages", "anthropic_messages", sdk),
        ("pi-chat", "openai_chat", {"user-agent": "OpenAI/JS 6.26.0"}),
        ("llm", "openai_chat", {"user-agent": "OpenAI/Python 3.51.0"}),
    ):
        recording = Recording(name, dialect, headers)
        work(recording, _plain)
        yield recording.expect("main", *EVERYTHING)
    yield opencode()
    yield gemini_cli()
    yield from qwen_code()
    yield cline()
    yield aider()


def opencode() -> Recording:
    """opencode: a title request and a sub-agent with ids in headers."""
    session = {
        "user-agent": "opencode/1.18.33 ai-sdk",
        "x-session-id": "ses_1",
        "x-session-affinity": "ses_1",
    }
    recording = Recording("opencode", "openai_chat", session)
    recording.ask(
        [user("Generate a title for this conversation:\n"), user(f'"{ONE}"')],
        answer("Text file writing"),
        system=["You are a title generator. You output ONLY a thread title."],
        kind="side:title",
        tools=False,
    )
    work(recording, _plain)
    recording.ask(
        [user("look for two.txt")],
        answer("It is there."),
        kind="subagent",
        headers={
            "x-session-id": "ses_2",
            "x-session-affinity": "ses_2",
            "x-parent-session-id": "ses_1",
        },
    )
    recording.expected["conversations"] |= {"side": 1, "subagent": 1}
    recording.expected["title"] = "Text file writing"
    return recording.expect("main", *EVERYTHING)


def gemini_cli() -> Recording:
    """Gemini CLI: a folder tree that grows; what is resumed has no signatures, and each result twice."""

    def tree(turn: int, _: str) -> tuple[list[str], list[str]]:
        files = "".join(f"├───file{number}.txt\n" for number in range(turn))
        return ["You are a CLI agent."], [
            f"<session_context>\nThis is the Gemini CLI.\n{files}</session_context>"
        ]

    def resumed(history: list[Said], turn: int) -> list[Said]:
        last = max(index for index, said in enumerate(history) if said.role == "user")
        found: list[Said] = []
        for index, said in enumerate(history):
            is_old = turn > 1 and index < last
            found.append(said._replace(is_thoughtful=said.is_thoughtful and not is_old))
            if is_old and said.role == "result":
                found.append(said)
        return found

    headers = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64)"}
    recording = Recording("gemini-cli", "gemini_generate", headers)
    work(recording, tree, change=resumed, is_thoughtful=True)
    return recording.expect("main", *EVERYTHING)


def qwen_code() -> Iterator[Recording]:
    """Qwen Code: context in a message of its own with a made-up answer, and a request for what to remember."""
    headers = {"user-agent": "QwenCode/0.15.10"}
    files = ["", "├───one.txt\n", "├───one.txt\n└───two.txt\n"]

    def opening(turn: int) -> list[Said]:
        text = (
            f"This is the Qwen Code. We are setting up the context for our chat.\n{files[turn - 1]}"
        )
        return [user(text), answer("Got it. Thanks for the context!")]

    def with_context(history: list[Said], turn: int) -> list[Said]:
        return [*opening(turn), *history]

    recording = Recording("qwen-code", "openai_chat", headers)
    history = work(recording, _plain, change=with_context)
    recording.ask(
        [*opening(3), *history, user("Extract what is worth remembering.")],
        answer("Nothing to remember."),
        system=["You are now acting as the managed memory extraction subagent of the program."],
        kind="side:memory",
    )
    recording.expected["conversations"]["side"] = 1
    yield recording.expect("main", *EVERYTHING)
    recording = Recording("qwen-unrelated", "openai_chat", headers)
    for name, prompt in (("A", ONE), ("B", TWO)):
        said = answer(f"Something for {name}.")
        recording.ask([*opening(1), user(prompt)], said, session=name)
        recording.expect(name, prompt, said.texts[0])
    recording.expected["conversations"]["main"] = 2
    yield recording


def cline() -> Recording:
    """Cline: the second turn is in another mode, with another prompt."""

    def mode(turn: int, _: str) -> tuple[list[str], list[str]]:
        return [f"You are in {'plan' if turn == 1 else 'act'} mode."], []

    recording = Recording("cline", "openai_chat", {"user-agent": "ai-sdk/openai-compatible/2.0.1"})
    work(recording, mode)
    return recording.expect("main", *EVERYTHING)


def aider() -> Recording:
    """aider: examples, restored turns between constant messages, prompts with a tail, and commit messages."""
    headers = {"user-agent": "OpenAI/Python 2.20.0"}
    recording = Recording("aider", "openai_chat", headers)
    examples = [
        user("Change get_factorial() to use math.factorial"),
        answer(
            "To make this change we need to modify `mathweb/flask/app.py` to:\n\n1. Import math."
        ),
        user("I switched to a new code base. Please don't consider the above files or edit them."),
        answer("Ok."),
    ]
    files = [user("I am not sharing any files that you can edit yet."), answer("Ok.")]
    tail = (
        "\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery *SEARCH/REPLACE block* must use this format."
    )
    restored: list[Said] = []
    for turn, (prompt, said) in enumerate(
        (
            (ONE, "I will write one.txt now.\n\none.txt\n```\nalpha\n```\nDone: wrote one.txt."),
            (TWO, "I will write two.txt now.\n\ntwo.txt\n```\nbeta\n```\nDone: wrote two.txt."),
            (THANKS, "Hello."),
        ),
        1,
    ):
        recording.turn = turn
        asked = [*examples, *restored, *files, user(prompt + tail)]
        recording.ask(
            asked, answer(said), system=["Act as an expert software developer."], tools=False
        )
        restored += [user(f"{prompt}  \n"), answer(f"\n{said}\n\n")]
        if turn < 3:
            recording.ask(
                [user(f"\nUSER: {prompt}\n\nASSISTANT: {said}\n\n# Diffs:\n+alpha {turn}")],
                answer(f"feat: add file {turn}"),
                system=[
                    "You are an expert software engineer that generates concise, one-line Git commit messages."
                ],
                kind="side:commit_message",
                tools=False,
            )
    recording.expected["conversations"]["side"] = 2
    recording.expected["said_in"] = "contains"
    recording.expected["has_linked_sides"] = True
    return recording.expect(
        "main", ONE, "Done: wrote one.txt.", TWO, "Done: wrote two.txt.", THANKS, "Hello."
    )


def all_recordings() -> list[Recording]:
    return [*claude_recordings(), *codex_recordings(), *other_recordings()]
