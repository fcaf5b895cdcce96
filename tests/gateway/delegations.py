"""Sub-agents that tell no id: known by their instructions, and by the call that gave them their task."""

from __future__ import annotations

from collections.abc import Iterator

from .recordings import THANKS, Item, Recording, Said, answer, result, user

TASK = "look at the notes and count their words"
AGENTS: tuple[tuple[str, str, str, list[Said], str], ...] = (
    (
        "gemini-cli",
        "gemini_generate",
        "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64)",
        [],
        "You are an agent.\n* When you have completed your task, you MUST call the `complete_task` tool.",
    ),
    (
        "qwen-code",
        "openai_chat",
        "QwenCode/0.15.10",
        [
            user("This is the Qwen Code. We are setting up the context for our chat."),
            answer("Got it. Thanks for the context!"),
        ],
        "You are an agent.\n\nImportant Rules:\n - You operate in non-interactive mode: do not ask the user questions.",
    ),
)


def delegated_recordings() -> Iterator[Recording]:
    yield _forked()
    for name, dialect, user_agent, opening, rules in AGENTS:
        yield _delegated(
            Recording(f"{name}-subagent", dialect, {"user-agent": user_agent}), opening, rules
        )


def _delegated(recording: Recording, opening: list[Said], rules: str) -> Recording:
    """A sub-agent in the first turn, and the same task once more in the second."""
    history = [*opening, user("Please let an agent do this")]
    said = ["Please let an agent do this"]
    for turn in (1, 2):
        recording.turn = turn
        started = answer(f"I ask an agent, number {turn}.", TASK)
        recording.ask(history, started)
        task = [*opening, user(f"Your task is this, as number {turn}:\n{TASK}")]
        reading = answer(f"I will read the notes, as number {turn}.", f"call_{turn}_of_the_agent")
        inner: Item = {"kind": "subagent", "system": [rules]}
        recording.ask(task, reading, **inner)
        done = [*task, reading, result(f"call_{turn}_of_the_agent", "one two three")]
        recording.ask(done, answer(f"Three words, says number {turn}."), **inner)
        history += [started, result(TASK, f"Three words, says number {turn}.")]
        finished = answer(f"The agent has finished, number {turn}.")
        recording.ask(history, finished)
        history += [finished, user(f"{THANKS}, and once more {turn}")]
        said += [*started.texts, *finished.texts, f"{THANKS}, and once more {turn}"]
    recording.ask(history, answer("Hello."))
    recording.expected["conversations"]["subagent"] = 2
    return recording.expect("main", *said, "Hello.")


def _forked() -> Recording:
    """Two sub-agents of Qwen Code that have their parent's history: one goes on before the parent does, one after."""
    recording = Recording(
        "qwen-code-forked-subagent", "openai_chat", {"user-agent": "QwenCode/0.15.10"}
    )
    history = [user("Please let a fork do this")]
    said = ["Please let a fork do this"]
    for turn in (1, 2):
        recording.turn = turn
        wanted = f"{TASK}, number {turn}"
        started = answer(f"I ask a fork, number {turn}.", wanted)
        recording.ask(history, started)
        history += [started, result(wanted, "Fork started — processing in background")]
        rules = "<fork-boilerplate>\nYou are a forked worker process.\n</fork-boilerplate>"
        task = [*history, user(f"{rules}\n\nDirective: {wanted}")]
        task += [answer("Understood. Executing directive now."), user("Begin.")]
        reading = answer(f"I will read the notes, as fork {turn}.", f"call_{turn}_of_the_fork")
        going_on = answer(f"The fork works, number {turn}.")
        if turn == 2:
            recording.ask(history, going_on)
        recording.ask(task, reading, kind="subagent")
        done = [*task, reading, result(f"call_{turn}_of_the_fork", "one two three")]
        recording.ask(done, answer(f"Three words, says fork {turn}."), kind="subagent")
        if turn == 1:
            recording.ask(history, going_on)
        history += [going_on, user(f"{THANKS}, and once more {turn}")]
        said += [*started.texts, *going_on.texts, f"{THANKS}, and once more {turn}"]
    recording.ask(history, answer("Hello."))
    recording.expected["conversations"]["subagent"] = 2
    recording.expected["has_calls"] = True
    return recording.expect("main", *said, "Hello.")
