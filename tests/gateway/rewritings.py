"""Sessions whose client writes what was said differently than it heard it: thoughts as text, joined texts, old results.

They follow what the programs do: pi 0.73 says the thoughts of another model as text, GitHub Copilot 1.0 changes the
text of a failed call when it resumes, and clients of Chat have one text in an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.gateway.recordings import (
    EVERYTHING,
    ONE,
    THANKS,
    TWO,
    Recording,
    Said,
    answer,
    result,
    user,
    work,
)


def rewritten_recordings() -> Iterator[Recording]:
    for name, dialect in (("messages", "anthropic_messages"), ("chat", "openai_chat")):
        recording = Recording(f"cleared-results-{name}", dialect)
        work(recording, lambda _turn, _first: (["Be brief."], []), change=_cleared)
        yield recording.expect("main", *EVERYTHING)
    recording = Recording("thoughts-as-text", "anthropic_messages")
    work(
        recording,
        lambda _turn, _first: (["Be brief."], []),
        change=_thoughts_as_text,
        is_thoughtful=True,
    )
    yield recording.expect("main", *EVERYTHING)
    yield _joined()


def _cleared(history: list[Said], turn: int) -> list[Said]:
    """Results of earlier turns are a short note."""
    last = max(at for at, said in enumerate(history) if said.role == "user")
    return [
        result(said.call, f"[cleared before turn {turn}]")
        if said.role == "result" and at < last
        else said
        for at, said in enumerate(history)
    ]


def _thoughts_as_text(history: list[Said], turn: int) -> list[Said]:
    """The second turn has another model than the first."""
    last = max(at for at, said in enumerate(history) if said.role == "user")
    return [
        said._replace(texts=("Hm.", *said.texts), is_thoughtful=False)
        if turn == 2 and at < last and said.is_thoughtful
        else said
        for at, said in enumerate(history)
    ]


def _joined() -> Recording:
    """The model answers in two texts, and the client sends one."""
    recording = Recording("joined-texts", "anthropic_messages")
    history = [user(ONE)]
    first = Said("assistant", ("I will write one.txt ", "now."), "call_joined")
    recording.ask(history, first)
    history += [answer("I will write one.txt now.", "call_joined"), result("call_joined")]
    recording.ask(history, Said("assistant", ("Done:", " wrote one.txt.")))
    history += [answer("Done: wrote one.txt."), user(TWO)]
    recording.turn = 2
    recording.ask(history, Said("assistant", ("I will write", " two.txt.")))
    history += [answer("I will write two.txt."), user(THANKS)]
    recording.turn = 3
    recording.ask(history, answer("Hello."))
    said = ("I will write one.txt ", "now.", "Done:", " wrote one.txt.", TWO, "I will write")
    return recording.expect("main", ONE, *map(str.strip, said), "two.txt.", THANKS, "Hello.")
