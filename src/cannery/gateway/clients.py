"""Client programs: how each identifies its session, its sub-agents and its side requests.

Everything known about programs is in the tables at the end, and no other module of the gateway names one. They produce
an ``Identity``: the program, the session that a call belongs to, and the call's relation to that session. Three
pitfalls determine how the tables are read:

- A session id identifies the conversation of a call, not its kind: title requests, summaries and sub-agents of Claude
  Code and opencode have the id of the main conversation. So the kind of a call is part of its session here.
- An apparent request id may be the id of the session (Codex), and a cache key is shared by a main thread and its
  sub-agents; neither is in the tables.
- An id stays the same when a history is replaced by a summary. Such a history is recognised by the text that the
  program puts before the summary, or by a counter.

Recorded with the versions of November 2026.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from cannery.errors import CanneryError
from cannery.messages import AnyCanister, Conversation, Request, Role
from cannery.storage.history import own_of
from cannery.wire.places import Places

Header = Callable[[str], str | None]
_LONGEST_ID = 200
_LOOKED_AT = 600
_FIRST_FEW = 4
_FIRST_HEADS = 8
_LAST_HEADS = 16
_SHORTEST_SUMMARY = 20
_TASK = 16
_SDK = re.compile(r"(OpenAI|Anthropic)/(Python|JS|Go|Java|Ruby|\w+) ([\w.-]{1,40})")
_OTHER = re.compile(r"([\w.-]{1,40})/([\w.-]{1,40})")
TITLE = "title"
SUBAGENT = "subagent"
COMPACTION = "compaction"
SUMMARY = "summary"


class Field(Struct, frozen=True):
    """The place of an id in a call: a header, or a member of the JSON in one; ``body`` is a path in the body."""

    header: str = ""
    member: str = ""
    body: re.Pattern[bytes] | None = None

    def read(self, header: Header, body: bytes) -> str:
        """Read the id; "" if it is missing or unusable."""
        if self.body is not None:
            match = self.body.search(body)
            return _usable(match[1].decode(errors="replace")) if match else ""
        text = header(self.header)
        if text and self.member:
            text = _member(str(text), self.member)
        return _usable(str(text)) if text else ""


class Client(Struct, frozen=True):
    """A program: its user agent prefix, and the places of its ids.

    ``agent`` is the id of a sub-agent that shares the session of its parent, ``parent_agent`` the sub-agent that began
    it. ``parent`` is the parent's session of a sub-agent that has its own. ``window`` ends with a number that increases
    when the history is replaced by a summary. ``rules`` occur in the instructions of sub-agents without an id; these
    belong to the conversation in which a call gave them their task. ``task`` begins the text, behind their parent's
    history, that gives sub-agents of another kind their task.
    """

    name: str
    user_agent: re.Pattern[str] | None = None
    session: tuple[Field, ...] = ()
    agent: tuple[Field, ...] = ()
    parent_agent: tuple[Field, ...] = ()
    parent: tuple[Field, ...] = ()
    window: tuple[Field, ...] = ()
    rules: str = ""
    task: str = ""


class Sign(Struct, frozen=True):
    """The test for a side request: every given condition must hold.

    ``system`` occurs in the instructions, ``user`` at the beginning of the last user text, ``asks`` at the beginning of
    any user text, ``field`` has a value; ``is_bare``: no tools are offered; ``client``: other programs may use these
    words for something else. ``quoted`` finds the model's text in the user's text, which identifies the conversation
    that the request concerns if no session does.
    """

    kind: str
    system: str = ""
    user: str = ""
    asks: str = ""
    field: tuple[Field, str] | None = None
    is_bare: bool = False
    client: str = ""
    quoted: re.Pattern[str] | None = None


class Identity(Struct, frozen=True):
    """The program of a call, its session, and its relation to the session.

    ``session`` identifies conversations and includes the kind; ``parent`` is the session that it belongs to, or
    ``quoted`` the model's text there.
    """

    client: str = ""
    version: str = ""
    session: str = ""
    kind: str = ""
    parent: str = ""
    is_compacted: bool = False
    quoted: str = ""

    @property
    def is_side(self) -> bool:
        """Whether it is a side request, which lists do not show."""
        return self.kind not in ("", SUBAGENT, COMPACTION)


def identify(header: Header, request: Request, body: bytes = b"") -> Identity:
    """Identify the program and session of a call."""
    client, version = _client(str(header("user-agent") or "")[:_LONGEST_ID], header)
    session = _first(client.session, header, body)
    name = f"{client.name}:{session}" if session else ""
    parent, kind = "", ""
    agent = _first(client.agent, header, body)
    above = _first(client.parent, header, body)
    if agent and name:
        begun_by = _first(client.parent_agent, header, body)
        parent, name, kind = (
            (f"{name}/{begun_by}" if begun_by else name),
            f"{name}/{agent}",
            SUBAGENT,
        )
    elif above and above != session:
        parent, kind = f"{client.name}:{above}", SUBAGENT
    elif client.rules and _has_rules(client.rules, request.conversation):
        kind = SUBAGENT
    elif client.task and (task := _task_in(client.task, request.conversation)):
        name, kind = f"{name or client.name}/{task}", SUBAGENT
    looked_at: Sequence[AnyCanister] = request.conversation
    if len(looked_at) > _FIRST_HEADS + _LAST_HEADS:
        looked_at = [*looked_at[:_FIRST_HEADS], *looked_at[-_LAST_HEADS:]]
    asked = _heads(looked_at, Role.User)
    sign = _side(client.name, header, request, body, _heads(looked_at, Role.Supervisor), asked)
    quoted = ""
    if sign is not None:
        parent, name, kind = name, f"{name}#{sign.kind}", sign.kind
        quoted = _quoted(sign, looked_at)
    window = _first(client.window, header, body).rpartition(":")[2]
    is_compacted = (window.isdecimal() and int(window) > 0) or any(
        head.startswith(SUMMARIES) for head in asked
    )
    is_compacted = sign is None and is_compacted
    return Identity(client.name, version, name, kind, parent, is_compacted, quoted)


def without_billing(request: Request, places: Places) -> Request:
    """A request without data for the program's own provider; other providers would read it as instructions."""
    history = request.conversation
    told = [
        at
        for at, canister in enumerate(history[:_FIRST_FEW])
        if canister.role is Role.Supervisor and _head(canister).startswith(BILLING)
    ]
    if not told:
        return request
    kept = [canister for at, canister in enumerate(history) if at not in told]
    for at in reversed(told):
        del places.canisters[at : at + 1]
    return request.replace(conversation=Conversation.trusted(kept))


def title_in(text: str) -> str:
    """The title in the answer to a title request; "" if there is none."""
    text = text.strip()
    if text.startswith(("{", "```")):
        text = _member(text.strip("`").removeprefix("json"), "title")
    lines = [line.strip().strip("\"'*#").strip() for line in text.splitlines()]
    return next(filter(None, lines), "")[:_LONGEST_ID]


def summaries_in(asked: Sequence[Any]) -> list[str]:
    """The texts at the beginning of a history that may be summaries written by a model."""
    talk = [one for one in asked[:_FIRST_HEADS] if one.role in (Role.User, Role.Assistant)]
    found: list[str] = []
    for canister in talk:
        try:
            text = str(canister.text).strip()
        except (AttributeError, CanneryError):
            continue
        wrapped = WRAPPED.fullmatch(text)
        if wrapped is not None:
            found.append(wrapped[1])
        elif text.endswith(SNAPSHOT) or not (own_of(canister).is_setup or canister is talk[-1]):
            found.append(text)
    # A greeting may occur in any conversation.
    return [text for text in found if len(text) >= _SHORTEST_SUMMARY]


def _client(user_agent: str, header: Header) -> tuple[Client, str]:
    known = _known_client(user_agent)
    if known is not None:
        return known
    for name, client in _TELLING:
        if header(name):
            return client, ""
    return _other_client(user_agent)


@lru_cache(1024)
def _known_client(user_agent: str) -> tuple[Client, str] | None:
    """The program in the tables with this user agent, and its version."""
    for client in CLIENTS:
        if client.user_agent is not None:
            match = client.user_agent.match(user_agent)
            if match is not None:
                return client, match[1] or ""
    return None


@lru_cache(1024)
def _other_client(user_agent: str) -> tuple[Client, str]:
    """A program that is not in the tables, by the name in its user agent."""
    match = _SDK.match(user_agent) or _OTHER.match(user_agent)
    if match is None:
        return ANY, ""
    name = "-".join(match.groups()[:-1])
    return msgspec.structs.replace(ANY, name=name.lower()), match[match.lastindex or 0]


def _first(fields: Iterable[Field], header: Header, body: bytes) -> str:
    for field in fields:
        found = field.read(header, body)
        if found:
            return found
    return ""


def _usable(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_ID and text.isprintable() else ""


def _member(text: str, name: str) -> str:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError):
        return ""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


# --- requests beside a conversation --------------------------------------------------------------


def _side(
    client: str,
    header: Header,
    request: Request,
    body: bytes,
    instructed: list[str],
    asked: list[str],
) -> Sign | None:
    """The sign of a side request; None if it is not one."""
    system, last = "\n".join(instructed), asked[-1] if asked else ""
    for sign in _signs_of(
        client, has_tools=bool(request.tools), is_begun=last.startswith(_BEGINNINGS)
    ):
        if sign.user and not last.startswith(sign.user):
            continue
        if sign.system and sign.system not in system:
            continue
        if sign.asks and not any(one.startswith(sign.asks) for one in asked):
            continue
        if sign.field is not None and sign.field[0].read(header, body) != sign.field[1]:
            continue
        return sign
    return None


@lru_cache(1024)
def _signs_of(client: str, *, has_tools: bool, is_begun: bool) -> tuple[Sign, ...]:
    """The signs to test for a program's request; ``is_begun`` if the user text begins with the words of one."""
    return tuple(
        sign
        for sign in SIGNS
        if sign.client in ("", client)
        and not (has_tools and sign.is_bare)
        and (is_begun or not sign.user)
    )


def _has_rules(rules: str, history: Sequence[Any]) -> bool:
    """Whether the instructions at the beginning of a history contain the rules of a sub-agent."""
    for canister in history[:_FIRST_FEW]:
        if canister.role is Role.Supervisor:
            with contextlib.suppress(CanneryError):
                if rules in str(canister.text):
                    return True
    return False


def _task_in(beginning: str, history: Sequence[AnyCanister]) -> str:
    """A name for the task of a sub-agent that has its parent's history; "" if there is none.

    The call before it tells it from the same task at another time.
    """
    call = ""
    for canister in history:
        if canister.role is Role.Invocation:
            call = canister.identifier  # type: ignore[union-attr]
        elif canister.role is Role.User and _head(canister).startswith(beginning):
            with contextlib.suppress(CanneryError):
                text = f"{call} {canister.text}"  # type: ignore[union-attr]
                return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_TASK]
    return ""


def _quoted(sign: Sign, canisters: Sequence[Any]) -> str:
    """The model's text in the conversation that a request concerns, as far as the request repeats it."""
    said = next((one for one in reversed(canisters) if one.role is Role.User), None)
    if sign.quoted is None or said is None:
        return ""
    try:
        match = sign.quoted.match(str(said.text))
    except CanneryError:
        return ""
    return match[1].strip() if match else ""


def _heads(canisters: Sequence[AnyCanister], role: Role) -> list[str]:
    """The beginnings of the texts of a role."""
    found = [canister for canister in canisters if canister.role is role]
    return [head for canister in found if (head := _head(canister))]


def _head(canister: Any) -> str:
    held = canister.held
    if type(held) is str:
        return held[:_LOOKED_AT].lstrip()
    try:
        return str(canister.text)[:_LOOKED_AT].lstrip()
    except CanneryError:
        return ""


def _header(name: str, member: str = "") -> Field:
    return Field(name, member)


# --- the tables ----------------------------------------------------------------------------------

CLAUDE_CODE = "claude-code"

_CODEX_TURN = "x-codex-turn-metadata"

CLIENTS = (
    Client(
        CLAUDE_CODE,
        re.compile(r"claude-cli/([\w.-]+)"),
        # The same id is in the body, as JSON in a string; other programs that imitate it keep only that.
        session=(
            _header("x-claude-code-session-id"),
            Field(body=re.compile(rb'"user_id":\s*"[^"]*?\\"session_id\\":\s*\\"([\w-]+)')),
            Field(body=re.compile(rb'"user_id":\s*"user_\w*_session_([\w-]+)"')),
        ),
        agent=(_header("x-claude-code-agent-id"),),
        parent_agent=(_header("x-claude-code-parent-agent-id"),),
    ),
    Client(
        "codex",
        re.compile(r"codex[\w-]*/([\w.-]+)"),
        # session-id and prompt_cache_key of a sub-agent are its parent's.
        session=(_header("thread-id"), _header(_CODEX_TURN, "thread_id")),
        parent=(_header("x-codex-parent-thread-id"), _header(_CODEX_TURN, "parent_thread_id")),
        window=(_header("x-codex-window-id"), _header(_CODEX_TURN, "window_id")),
    ),
    Client(
        "opencode",
        re.compile(r"opencode/([\w.-]+)"),
        session=(_header("x-session-id"), _header("x-session-affinity")),
        parent=(_header("x-parent-session-id"),),
    ),
    Client(
        "gemini-cli",
        re.compile(r"GeminiCLI[\w-]*/([\w.-]+)"),
        rules="you MUST call the `complete_task` tool",
    ),
    Client(
        "qwen-code",
        re.compile(r"QwenCode/([\w.-]+)"),
        rules="You operate in non-interactive mode: do not ask the user questions",
        task="<fork-boilerplate>",
    ),
    Client("goose", session=(_header("agent-session-id"),)),
    # Its Messages and Chat requests cannot be told apart from those of the SDKs.
    Client("pi", session=(_header("session_id"),)),
)

# Headers that identify a program whose user agent does not.
_TELLING = [(field.header, one) for one in CLIENTS for field in one.session if field.header]

ANY = Client("", session=(_header("x-session-id"), _header("session-id")))
"""An unknown program."""

SIGNS = (
    # Claude Code: requests of the main thread repeat its history, with its instructions and tools.
    Sign(TITLE, system="Generate a concise, sentence-case title", asks="<session>", is_bare=True),
    Sign(TITLE, user="You are coming up with a succinct title and git branch name", is_bare=True),
    Sign(
        "topic", system="Analyze if this message indicates a new conversation topic", is_bare=True
    ),
    Sign(TITLE, system="Summarize this coding conversation in under 50 characters", is_bare=True),
    Sign(SUMMARY, user="CRITICAL: Respond with TEXT ONLY"),
    Sign(SUMMARY, user="Your task is to create a detailed summary of the conversation"),
    Sign(SUMMARY, system="You are a helpful AI assistant tasked with summarizing conversations"),
    Sign("suggestion", user="[SUGGESTION MODE: Suggest what the user might naturally type next"),
    Sign("recap", user="The user stepped away and is coming back. Recap in under 40 words"),
    Sign(
        "question",
        user="<system-reminder>This is a side question from the user.",
        client=CLAUDE_CODE,
    ),
    Sign("progress", user="Describe your most recent action in 3-5 words", client=CLAUDE_CODE),
    Sign("memory", asks="You are now acting as the memory extraction subagent", client=CLAUDE_CODE),
    Sign("memory", asks="# Dream: Memory Consolidation", client=CLAUDE_CODE),
    Sign("name", user="Generate a short kebab-case name (2-4 words)"),
    Sign("name", system="Generate a short kebab-case name (2-4 words)", is_bare=True),
    Sign("name", user="2-4 word lowercase label for this job.", is_bare=True, client=CLAUDE_CODE),
    Sign(
        "label",
        system="Write a short summary label describing what these",
        is_bare=True,
        client=CLAUDE_CODE,
    ),
    Sign("page", user="Web page content:\n---", is_bare=True, client=CLAUDE_CODE),
    Sign(
        "search",
        system="You are an assistant for performing a web search tool use",
        client=CLAUDE_CODE,
    ),
    Sign(
        "command",
        system="Your task is to process Bash commands that an AI",
        is_bare=True,
        client=CLAUDE_CODE,
    ),
    Sign(
        "command",
        system="Analyze shell commands and explain what they do, why you're running",
        client=CLAUDE_CODE,
    ),
    Sign(
        "check",
        system="You are a security monitor for autonomous AI coding agents",
        client=CLAUDE_CODE,
    ),
    Sign(
        "check",
        system="You are evaluating a hook condition in Claude Code",
        is_bare=True,
        client=CLAUDE_CODE,
    ),
    Sign(
        "check",
        system="A user kicked off a Claude Code agent to do a coding task",
        is_bare=True,
        client=CLAUDE_CODE,
    ),
    # Codex
    Sign(SUMMARY, field=(_header(_CODEX_TURN, "request_kind"), "compaction")),
    Sign(SUMMARY, user="You are performing a CONTEXT CHECKPOINT COMPACTION", is_bare=True),
    # opencode
    Sign(TITLE, system="You are a title generator", is_bare=True),
    Sign(TITLE, asks="Generate a title for this conversation:", is_bare=True),
    Sign(SUMMARY, user="Provide a detailed prompt for continuing our conversation above"),
    Sign(SUMMARY, system="You are a context summarization agent", is_bare=True),
    Sign(SUMMARY, system="Summarize what was done in this conversation. Write like", is_bare=True),
    # Gemini CLI, Qwen Code
    Sign(SUMMARY, system="You are the component that summarizes internal chat history"),
    Sign(SUMMARY, system="responsible for distilling chat history into a structured XML"),
    Sign(SUMMARY, system="You are a specialized context summarizer", is_bare=True),
    Sign("memory", system="You are now acting as the managed memory extraction subagent"),
    Sign("memory", system="You are an Auto Memory Extraction Agent"),
    Sign("recap", system="You generate session recaps for a programming assistant CLI"),
    Sign("recap", user="Summarize the user's primary intent or goal in this", is_bare=True),
    Sign("routing", system="Task Routing AI. Your sole", is_bare=True),
    Sign("speaker", user="Analyze *only* the content and structure of your immediately preceding"),
    Sign("check", system="diagnostic agent that determines whether a conversational AI assistant"),
    Sign("edit", system="Your task is to analyze a failed edit attempt", is_bare=True),
    Sign("page", user="Summarize the following tool output to be a maximum of", is_bare=True),
    # pi, Cline, Continue, goose, crush
    Sign(
        SUMMARY,
        system="You are a context summarization assistant",
        is_bare=True,
        quoted=re.compile(
            r"(?s:.*)^\[Assistant\]: ((?s:.*?))(?:\n\n\[\w|\n</conversation>)", re.MULTILINE
        ),
    ),
    Sign(SUMMARY, user="Summarize this session for continuation. Be concise", is_bare=True),
    Sign(SUMMARY, user="Please provide a concise summary of our conversation so far, capturing"),
    Sign(SUMMARY, system="An llm context limit was reached when a user was in", is_bare=True),
    Sign(SUMMARY, system="You are summarizing a conversation to preserve context", is_bare=True),
    Sign(TITLE, user="Given the following... please reply with a title", is_bare=True),
    Sign(TITLE, system="Reply with only a description in four words or less", is_bare=True),
    Sign(TITLE, user="Generate a concise title for the following content:", is_bare=True),
    # aider
    Sign(
        "commit",
        system="generates concise, one-line Git commit messages",
        is_bare=True,
        quoted=re.compile(r"(?s:.*)^ASSISTANT: ((?s:.*?))\n\n# Diffs:$", re.MULTILINE),
    ),
    Sign(SUMMARY, system="*Briefly* summarize this partial conversation", is_bare=True),
    # Open WebUI
    Sign(TITLE, user="### Task:\nGenerate a concise, 3-5 word title", is_bare=True),
    Sign("tags", user="### Task:\nGenerate 1-3 broad tags", is_bare=True),
    Sign("questions", user="### Task:\nSuggest 3-5 relevant follow-up questions", is_bare=True),
)

_BEGINNINGS = tuple(sign.user for sign in SIGNS if sign.user)

BILLING = ("x-anthropic-billing-header:",)
"""Text that programs put into their instructions for the accounts of their own provider."""

SUMMARIES = (
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem",
    "The conversation history before this point was compacted into the following summary",
    "<state_snapshot>",
)
"""Text that programs put before the summary that replaces a history."""

WRAPPED = re.compile(
    r"(?s)The conversation history before this point was compacted into the following summary:"
    r"\s*<summary>(.*?)(?:\n\n<(?:read|modified)-files>.*)?</summary>"
)
"""Text that pi puts around a summary; a list of the files that were read and written may follow."""

SNAPSHOT = "</state_snapshot>"
"""The end of summaries of Gemini CLI and Qwen Code."""
