"""Draw the output of the command line into ``docs/images``; ``make docs`` runs it, and a test compares.

The real executable runs on a pseudo-terminal, on generated sample data, and rich renders its output. Ids and times are
fixed, so the pictures change only when the command does.
"""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cannery
from cannery.messages import AnyCanister, Conversation
from cannery.storage import Store, open_store

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FONTS = "Fira Code, ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
BEGAN = datetime(2026, 9, 20, 8, 0, tzinfo=UTC)

REQUEST = {
    "model": "gpt-5",
    "max_completion_tokens": 300,
    "logit_bias": {"50256": -100},
    "messages": [
        {"role": "Human", "content": "Is it warm in Lisbon?"},
        {"role": "AI", "content": "Mild: about 21 °C."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "And the sea?"},
    ],
}
# A session that was interrupted during a call, with settings that its model does not accept.
REFUSED = {
    "model": "claude-opus-5",
    "max_tokens": 1024,
    "temperature": 0.2,
    "messages": [
        {"role": "user", "content": "Is it warm in Lisbon?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I look it up."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "weather",
                    "input": {"city": "Lisbon"},
                },
            ],
        },
        {"role": "user", "content": "Well?"},
    ],
}
# Creation times are the time of drawing.
_DATED = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d")
# The width of the terminal, and the arguments.
SCREENS = {
    "translate": (120, ("translate", "request.json", "--to", "anthropic_messages")),
    "doctor": (
        130,
        ("doctor", "session.json", "--to", "anthropic_messages", "--to", "gemini_generate"),
    ),
    "list": (100, ("list", "--tag", "travel", "--store", "chats")),
    "show": (84, ("show", "01k7b", "--store", "chats")),
    "tree": (74, ("show", "01k7b", "--tree", "--store", "chats")),
    "stats": (84, ("stats", "--store", "chats")),
}
MODELS = ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro")
TOPICS = (
    "Sourdough",
    "A letter to the landlord",
    "Regular expressions",
    "Names for a cat",
    "Tides",
)


def fill(store: Store) -> None:
    """Fill a store: a trip that was planned in several ways, and questions of other days."""
    trip = store.create(
        title="A week in Lisbon",
        tags=("travel",),
        model=MODELS[0],
        identifier="01k7b2m4q0e9wz5r8t3y6u1i0p",
        canisters=timed(
            BEGAN,
            cannery.supervisor("You plan trips. Be brief."),
            cannery.user("Plan a week in Lisbon for two."),
            cannery.assistant("**Day 1**: Alfama and the castle. **Day 2**: Belém. …"),
            cannery.user("We would rather walk than ride."),
            cannery.assistant("Then stay in Graça: everything is downhill from there."),
        ),
    )
    cheap = trip.fork(3, title="… with less money", identifier="01k7c8d3f6g1h4j7k0l5z2x9cv")
    cheap.append(
        timed(
            BEGAN + timedelta(hours=2),
            cannery.user("That is too expensive."),
            cannery.assistant("A flat in Almada costs half, and the ferry is the best view."),
        )
    )
    hostel = cheap.fork(5, title="… in a hostel", identifier="01k7dmnb5v8c1x4z7q0w3e6r9t")
    hostel.append(timed(BEGAN + timedelta(hours=3), cannery.user("And a hostel?")))
    rain = trip.fork(5, title="… if it rains", identifier="01k7h1y4u7i0o3p6a9s2d5f8gh")
    rain.append(timed(BEGAN + timedelta(days=1), cannery.user("What if it rains?")))
    for day in range(50):
        if day % 7 < 5:
            ask(store, day)


def ask(store: Store, day: int) -> None:
    """Add the questions of one day: more on some, with a tool on some."""
    said: list[AnyCanister] = []
    for number in range(1 + day * 7 % 5):
        call = f"call_{number}"
        said += [
            cannery.user(f"Question {number + 1} of day {day + 1}?"),
            cannery.invocation(call, "search", {"query": f"topic {day}"}),
            cannery.result(call, "Nothing new under the sun. " * 60),
            cannery.assistant("As far as I can find, no. " * 12),
        ]
    store.create(
        title=TOPICS[day % len(TOPICS)],
        model=MODELS[day * 5 % 7 % len(MODELS)],
        identifier=f"01k8{day:02}q5w8e1r4t7y0u3i6o9pas",
        canisters=timed(BEGAN + timedelta(days=day), *said),
    )


def timed(when: datetime, *canisters: AnyCanister) -> Conversation:
    """Give canisters consecutive times."""
    return Conversation(
        canister.replace(timestamp=when + timedelta(seconds=20 * number))
        for number, canister in enumerate(canisters)
    )


def screens() -> Iterator[tuple[str, str, str]]:
    """The name of each picture, the command, and its coloured output on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "request.json").write_text(json.dumps(REQUEST), "utf-8")
        (home / "session.json").write_text(json.dumps(REFUSED), "utf-8")
        with open_store(home / "chats") as store:
            fill(store)
        for name, (width, words) in SCREENS.items():
            yield name, f"cannery {' '.join(words)}", on_terminal(home, words, width)


def on_terminal(home: Path, words: tuple[str, ...], width: int) -> str:
    """Run the executable on a pseudo-terminal, and return its output."""
    command = [sys.executable, "-m", "cannery", *words]
    surroundings = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(home),
        "TERM": "xterm-256color",
        "COLUMNS": str(width),
        "LINES": "60",
        "PAGER": "cat",
        "TZ": "UTC",
        "LANG": "C.UTF-8",
    }
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, cwd=home, env=surroundings, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        shown = b"".join(_read(master))
    os.close(master)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {shown!r}")
    return _DATED.sub(f"{BEGAN:%Y-%m-%d %H:%M}", shown.decode().replace("\r\n", "\n"))


def _read(master: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # Linux raises this when the other end is closed
            return
        if not data:
            return
        yield data


def draw(name: str, command: str, shown: str) -> str:
    """Render a picture of a terminal."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    console = Console(
        record=True,
        width=SCREENS[name][0],
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    console.print(Text.from_ansi(shown.rstrip("\n")))
    drawn = console.export_svg(title="", unique_id=f"cannery-{name}")
    # A picture in a page must not load fonts from elsewhere, so it uses the reader's.
    without = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    without = without.replace("font-family: Fira Code, monospace", f"font-family: {FONTS}")
    return "\n".join(line.rstrip() for line in without.splitlines() if line.strip())


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    for name, command, shown in screens():
        (IMAGES / f"{name}.svg").write_text(draw(name, command, shown) + "\n", "utf-8")


if __name__ == "__main__":
    main()
