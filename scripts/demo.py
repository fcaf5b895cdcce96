"""Show what Cannery does, part by part; a part that has not landed yet is named and passed over."""

import json
import sys
from collections.abc import Callable
from typing import Any

import cannery

library: Any = cannery  # untyped here, since parts of it may not have landed

QUESTION = {
    "model": "gpt-4o",
    "messages": [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "What is the capital of France?"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "And of Italy?"},
    ],
    "max_tokens": 64,
    "logit_bias": {"1734": -100},
}


def show_roles() -> None:
    """Whatever clients call a role, it is one of ours."""
    for spelled in (" Human ", "AI", "ChatBot", "SYSTEM"):
        print(f"  {spelled!r:12} is {library.normalize_role(spelled)!r}")
    try:
        library.normalize_role("admin")
    except library.CanneryError as error:
        print(f"  {'admin'!r:12} is refused: {error}")


def show_providers() -> None:
    """A model's name says whose vocabulary to speak."""
    for model in ("gpt-4o", "claude-sonnet-4-5", "gemini-1.5-flash"):
        print(f"  {model:20} is {library.normalize_provider(model)}")


def show_messages() -> None:
    """A conversation is a tuple of immutable values."""
    for canister in (library.supervisor("Answer in one word."), library.user("And of Italy?")):
        print(f"  {canister.role.value:10} {canister.content.text}")


def show_translation() -> None:
    """One provider's request, said to another, with everything that could not be said."""
    for target in ("anthropic_messages", "gemini_generate"):
        rendered = library.translate(
            json.dumps(QUESTION).encode(), source="openai_chat", target=target
        )
        print(f"  openai_chat to {target}:")
        print("   ", json.dumps(json.loads(rendered.body), indent=2).replace("\n", "\n    "))
        for loss in rendered.losses:
            print(f"    lost: {loss.path}: {loss.detail}")


SHOWS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "Messages": (show_messages, ("supervisor", "user")),
    "Roles": (show_roles, ("CanneryError", "normalize_role")),
    "Providers": (show_providers, ("normalize_provider",)),
    "Translation": (show_translation, ("translate",)),
}


def main() -> int:
    """Run each part of the demonstration whose names the library has."""
    shown = 0
    for title, (show, names) in SHOWS.items():
        missing = [name for name in names if not hasattr(library, name)]
        if missing:
            print(f"{title}: not there yet")
            continue
        print(f"{title}: {show.__doc__}")
        show()
        shown += 1
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(main())
