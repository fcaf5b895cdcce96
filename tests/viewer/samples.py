"""Conversations for tests in a browser: a chat with branches, an agent's session, a long one, a hostile one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import cannery
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    ImageContentClass,
    ReasoningContentClass,
    ResultCanisterClass,
    TextualContentClass,
    UserCanisterClass,
)
from cannery.storage import Store
from tests.viewer.attacks import ATTACKS, hostile_conversation

LONG = 5_000


def picture(width: int = 320, height: int = 180) -> bytes:
    """A PNG with a gradient."""
    rows = b"".join(
        b"\x00" + b"".join(bytes((x * 255 // width, y * 255 // height, 140)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def agent_session() -> list[AnyCanister]:
    """A coding agent: reasoning, calls at once, an edit, a failure, a long result."""
    return [
        cannery.supervisor("You are a coding agent. " * 40),
        cannery.user(
            "<system-reminder>\nThe date is today.\n</system-reminder>\nFix the failing test in **parser.py**"
        ),
        AssistantCanisterClass(
            ReasoningContentClass("I should look at the file and run the test first.")
        ),
        cannery.assistant("Let me look."),
        cannery.invocation("c1", "Read", {"file_path": "src/parser.py"}),
        cannery.invocation(
            "c2",
            "Bash",
            {"command": "pytest -q tests/test_parser.py", "description": "Run the test"},
        ),
        cannery.result("c1", "\n".join(f"{n}\tdef line_{n}(): ..." for n in range(1, 80))),
        ResultCanisterClass("c2", TextualContentClass("1 failed: test_empty"), error=True),
        cannery.invocation(
            "c3",
            "Edit",
            {
                "file_path": "src/parser.py",
                "old_string": "    return tokens[0]",
                "new_string": "    return tokens[0] if tokens else None",
            },
        ),
        cannery.result("c3", "The file was updated."),
        cannery.assistant(
            "Fixed:\n\n| test | before | after |\n|---|:-:|--:|\n| empty | ✗ | ✓ |\n\n"
            "```python\nassert parse('') is None\n```"
        ),
        cannery.user("Thanks! And this picture?"),
        UserCanisterClass(ImageContentClass(picture(), "image/png"), joined=True),
        cannery.assistant("A gradient."),
    ]


def long_session(count: int = LONG) -> Iterator[AnyCanister]:
    """Many messages, most of them calls."""
    for number in range(count // 5):
        yield cannery.user(
            f"Prompt {number}: please look at part {number} of the code and say what it does."
        )
        yield cannery.assistant(
            f"## Part {number}\n\nIt has *several* things:\n\n- one\n- two\n\n```python\nx = {number}\n```"
        )
        yield cannery.invocation(f"c{number}", "Read", {"file_path": f"src/part_{number}.py"})
        yield cannery.result(
            f"c{number}", "\n".join(f"line {line} of {number}" for line in range(30))
        )
        yield cannery.assistant(f"That was part {number}. " + "It does what its name says. " * 12)


def fill(store: Store, *, is_long: bool = True) -> dict[str, str]:
    """Put everything into a store; the ids by name."""
    agent = store.create(
        title="Fix the failing test",
        model="claude-sonnet-4-5",
        tags=["work"],
        canisters=agent_session(),
    )
    chat = store.create(
        title="A weekend in Lisbon",
        model="gpt-5",
        canisters=[
            cannery.user("Where shall we go in Lisbon?"),
            cannery.assistant("To Alfama, the oldest quarter."),
            cannery.user("And to eat?"),
            cannery.assistant("Grilled sardines."),
        ],
    )
    for question, answer in (("And to drink?", "Ginjinha."), ("And to see?", "The tiles museum.")):
        fork = chat.fork(at=2, title=question)
        fork.append(cannery.user(question), cannery.assistant(answer))
    long = store.create(title="A long session", canisters=long_session(LONG if is_long else 10))
    hostile = store.create(title=ATTACKS[0], tags=[ATTACKS[4][:50]])
    for attack in ATTACKS:
        # What is only large is said once: it is about the time that it takes.
        said = hostile_conversation(attack)[2:]
        hostile.append(said if len(attack) < 2_000 else said[-1:])
    return {
        "agent": agent.identifier,
        "chat": chat.identifier,
        "long": long.identifier,
        "hostile": hostile.identifier,
    }
