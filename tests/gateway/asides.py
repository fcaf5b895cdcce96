"""Sessions in which programs ask for more than a person did: suggestions, routes and summaries.

They are of the shape of ``recordings`` and follow what the programs do: Claude Code 2.1 in a terminal, Gemini CLI 0.61
with its default model and opencode 1.18 as they were seen, pi 0.73 and Continue 1.5 as their sources say.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.gateway.recordings import (
    ONE,
    THANKS,
    TWO,
    Recording,
    Said,
    answer,
    result,
    user,
)

TURNS = (
    (ONE, "I will think of one.txt."),
    (TWO, "I will think of two.txt."),
    (THANKS, "Hello."),
)
SAID = tuple(text for turn in TURNS for text in turn)
_GEMINI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64)"}


def aside_recordings() -> list[Recording]:
    return [
        claude_suggestions(),
        claude_memory(),
        gemini_routes(),
        *gemini_compressions(),
        opencode_compaction(),
        *compactions_without_a_session(),
    ]


def claude_suggestions() -> Recording:
    """After each turn the program asks what the person may type next, with the history, instructions and tools."""
    headers = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
    headers["x-claude-code-session-id"] = "s-suggest"
    recording = Recording("claude-suggestions", "anthropic_messages", headers)
    history: list[Said] = []
    for recording.turn, (prompt, said) in enumerate(TURNS, 1):
        history += [user(prompt), answer(said)]
        recording.ask(history[:-1], history[-1])
        asked = "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]\n\nFIRST: …"
        recording.ask([*history, user(asked)], answer("run the tests"), kind="side:suggestion")
    recording.expected["conversations"]["side"] = 3
    recording.expected["has_linked_sides"] = True
    return recording.expect("main", *SAID)


def claude_memory() -> Recording:
    """A forked agent that works with tools keeps the session's id; its task is far from the end of its history."""
    headers = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
    headers["x-claude-code-session-id"] = "s-memory"
    recording = Recording("claude-extraction", "anthropic_messages", headers)
    history = [user(ONE), answer("I will think of one.txt.")]
    recording.ask(history[:1], history[1])
    task = "You are now acting as the memory extraction subagent. Analyze the most recent ~2 messages above."
    asked = [*history, user(task)]
    for number in range(5):
        call = f"call_memory_{number}"
        looking = answer("", call)
        recording.ask(asked, looking, kind="side:memory")
        asked = [*asked, looking, result(call)]
    recording.turn = 2
    history += [user(TWO), answer("I will think of two.txt.")]
    recording.ask(history[:-1], history[-1])
    recording.expected["conversations"]["side"] = 5
    recording.expected["has_linked_sides"] = True
    return recording.expect("main", *SAID[:4])


def gemini_routes() -> Recording:
    """Before each turn a small model is asked which model is to answer: the history, other instructions, no tools."""
    recording = Recording("gemini-routes", "gemini_generate", _GEMINI)
    routing = "\nYou are a specialized Task Routing AI. Your sole function is to analyze the user's request."
    tree = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
    history: list[Said] = []
    for recording.turn, (prompt, said) in enumerate(TURNS, 1):
        asked = [*history, user(tree, prompt) if not history else user(prompt)]
        choice = answer('{"reasoning": "simple", "model_choice": "flash"}')
        recording.ask(asked, choice, system=[routing], kind="side:routing", tools=False)
        recording.ask(asked, answer(said))
        history = [*asked, answer(said)]
    recording.expected["conversations"]["side"] = 3
    return recording.expect("main", *SAID)


_DISTILLING = (
    "\nYou are a specialized system component responsible for distilling chat history into a structured XML "
    "<state_snapshot>."
)


def gemini_compressions() -> Iterator[Recording]:
    """A snapshot is asked for, judged, and replaces the history; some models write a scratchpad before it."""
    for name, before in (
        ("plain", ""),
        ("thoughtful", "<scratchpad>\nWhat is left?\n</scratchpad>\n"),
    ):
        recording = Recording(f"gemini-compression-{name}", "gemini_generate", _GEMINI)
        history = [user(ONE), answer("I will think of one.txt.")]
        recording.ask(history[:1], history[1])
        recording.turn = 2
        snapshot = f"{before}<state_snapshot>\n<goal>{name}</goal>\n</state_snapshot>"
        asked = [*history, user("Generate a new <state_snapshot> based on the provided history.")]
        recording.ask(
            asked, answer(snapshot), system=[_DISTILLING], kind="side:compact", tools=False
        )
        judged = [*asked, answer(snapshot), user("Critically evaluate the <state_snapshot>.")]
        recording.ask(
            judged, answer(snapshot), system=[_DISTILLING], kind="side:compact", tools=False
        )
        got = answer("Got it. Thanks for the additional context!")
        yield _go_on(recording, [user(snapshot), got], history[1])


def opencode_compaction() -> Recording:
    """The program asks for a summary of the history in a text, and goes on as if the model had said it."""
    session = {"user-agent": "opencode/1.18.33 ai-sdk", "x-session-id": "ses_compact"}
    recording = Recording("opencode-compaction", "openai_chat", session)
    history = [user(ONE), answer("I will think of one.txt.")]
    recording.ask(history[:1], history[1])
    recording.turn = 2
    summary = answer("## Goal\nThe files of opencode")
    recording.ask(
        [user("Here is the conversation so far:\n\n<conversation>\n…\n</conversation>")],
        summary,
        system=["You are a context summarization agent. You are given a conversation."],
        kind="side:compact",
        tools=False,
    )
    return _go_on(recording, [user("What did we do so far?"), summary], history[1])


def compactions_without_a_session() -> Iterator[Recording]:
    """What the model said in a summary is all that links what follows to what was before it."""
    system = ["You are a context summarization assistant. Produce a structured summary."]
    request = user(
        f"<conversation>\n[User]: {ONE}\n\n[Assistant]: I will think of one for pi.\n</conversation>\n\n"
        "Create a structured context checkpoint summary."
    )
    wrapped = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"
    files = "\n\n<read-files>\none.txt\n</read-files>\n</summary>"
    recording = Recording("pi-compaction", "openai_chat", {"user-agent": "OpenAI/JS 6.26.0"})
    said = answer("I will think of one for pi.")
    recording.ask([user(ONE)], said)
    summary = "## Goal\nThe files of pi"
    recording.turn = 2
    recording.ask([request], answer(summary), system=system, kind="side:compact", tools=False)
    yield _go_on(recording, [user(f"{wrapped}{summary}{files}")], said)
    recording = Recording("continue-compaction", "openai_chat", {"user-agent": "node-fetch/1.0"})
    said = answer("I will think of one for Continue.")
    recording.ask([user(ONE)], said)
    recording.turn = 2
    request = user(
        "Please provide a concise summary of our conversation so far, capturing the key context."
    )
    recording.ask([user(ONE), said, request], answer("The files of Continue"), kind="side:compact")
    yield _go_on(recording, [answer("The files of Continue")], said)


def _go_on(recording: Recording, summary: list[Said], said: Said) -> Recording:
    """Two turns after a summary that takes the place of the history."""
    after = [*summary, user(TWO)]
    recording.ask(after, answer("I will think of two.txt."))
    recording.turn = 3
    recording.ask([*after, answer("I will think of two.txt."), user(THANKS)], answer("Hello."))
    recording.expected["has_linked_sides"] = True
    recording.expected["compactions"] = 1
    recording.expect("before", ONE, said.texts[0])
    return recording.expect("after", *SAID[2:], linked_to="before")
