"""The verbs, in the groups and the order in which help shows them; each is a module in ``cannery.cli.verbs``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Translation": {
        "translate": "translate a request, response or stream to another dialect",
        "doctor": "find what a provider refuses, and fix it",
        "roles": "normalize, explain, compare and count role names",
    },
    "Conversations": {
        "list": "list the conversations of a store",
        "show": "print a conversation",
        "search": "find messages by their words",
        "fork": "fork a conversation at any message",
        "tag": "add and remove tags, set a title",
        "delete": "delete conversations",
        "erase": "delete conversations and remove their text from every file",
        "import": "import chats of other programs and data sets",
        "export": "write conversations as a dialect, Markdown, HTML, JSONL",
        "stats": "count messages, bytes, roles and models",
    },
    "The store": {
        "verify": "recompute every hash and report all damage",
        "gc": "free the space of deleted conversations and unused content",
        "reindex": "build the index again",
        "backup": "copy a store, also while it is in use",
        "restore": "make a store from a backup and verify it",
        "keys": "list, create, rotate and destroy keys of an encrypted store",
    },
    "Servers and settings": {
        "serve": "run the gateway",
        "view": "show conversations in a browser",
        "config": "print every setting and its source",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
VERBS: Mapping[str, str] = {name: text for group in GROUPS.values() for name, text in group.items()}


def load_verb(name: str) -> ModuleType:
    """The module of a verb; one that Python could not import by its own name has a trailing underscore."""
    suffix = "_" if name in ("import", "list") else ""
    return importlib.import_module(f"cannery.cli.verbs.{name}{suffix}")
