"""The verbs, in the groups and the order in which help shows them; each is a module in ``cannery.cli.verbs``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Say it another way": {
        "translate": "say a request, response or stream in another dialect",
        "doctor": "which message breaks which provider, and why",
        "roles": "role names: normalize, explain, compare, count",
    },
    "Conversations": {
        "list": "the conversations of a store",
        "show": "read a conversation",
        "search": "find messages by their words",
        "fork": "branch off a conversation at any message",
        "tag": "add and remove tags, give a title",
        "delete": "delete conversations",
        "erase": "delete conversations and leave none of their words in any file",
        "import": "take in chats from other programs and data sets",
        "export": "write conversations as a dialect, Markdown, HTML, JSONL",
        "stats": "messages, bytes, roles and models of a store",
    },
    "The store": {
        "verify": "derive every hash again and name all damage",
        "gc": "free what nothing reaches",
        "reindex": "build the index again",
        "backup": "copy a store that may be in use",
        "restore": "make a store from a backup, and verify it",
        "keys": "the keys of an encrypted store: list, create, rotate, destroy",
    },
    "Around it": {
        "serve": "run the gateway",
        "view": "conversations in a browser",
        "config": "every setting, and where it comes from",
        "completion": "completion for bash, zsh and fish",
    },
}
VERBS: Mapping[str, str] = {name: text for group in GROUPS.values() for name, text in group.items()}


def load_verb(name: str) -> ModuleType:
    """The module of a verb; one that Python could not import by its own name has a trailing underscore."""
    suffix = "_" if name in ("import", "list") else ""
    return importlib.import_module(f"cannery.cli.verbs.{name}{suffix}")
