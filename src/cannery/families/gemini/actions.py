"""The actions of Gemini's computer use: functions that the model knows without a definition, and the client runs.

Places count from 0 to 999, whatever the size of the screen
(https://ai.google.dev/gemini-api/docs/computer-use, the actions of Gemini 2.5, 2026-11-18).
"""

from __future__ import annotations

from typing import Any

from cannery.messages.hosted import ComputerUse
from cannery.messages.json_text import write_json
from cannery.messages.requests import Tool, new_tool
from cannery.wire.bodies import Object
from cannery.wire.hosted import TEXTS, Form, Group, ToolRow

_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_PART = {"type": "integer", "minimum": 0, "maximum": 999}
_SIDE = {"type": "string", "enum": ["up", "down", "left", "right"]}
_AT = {"x": _PART, "y": _PART}
# An action's description, its required arguments, and its optional ones.
_ACTIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "open_web_browser": ("Open a web browser.", {}, {}),
    "wait_5_seconds": ("Wait for five seconds.", {}, {}),
    "go_back": ("Go back to the page before.", {}, {}),
    "go_forward": ("Go forward to the next page.", {}, {}),
    "search": ("Go to the home page of a search engine.", {}, {}),
    "navigate": ("Go to an address.", {"url": _TEXT}, {}),
    "click_at": ("Click at a place.", _AT, {}),
    "hover_at": ("Move the pointer to a place.", _AT, {}),
    "type_text_at": (
        "Type a text at a place; by default over what is there, and with the enter key behind it.",
        {**_AT, "text": _TEXT},
        {"press_enter": _FLAG, "clear_before_typing": _FLAG},
    ),
    "key_combination": ("Press keys, joined by +.", {"keys": _TEXT}, {}),
    "scroll_document": ("Scroll the page.", {"direction": _SIDE}, {}),
    "scroll_at": ("Scroll at a place.", {**_AT, "direction": _SIDE}, {"magnitude": _PART}),
    "drag_and_drop": (
        "Drag from one place to another.",
        {**_AT, "destination_x": _PART, "destination_y": _PART},
        {},
    ),
}
_BROWSER = "browser"


def computer_row(tag: str, environment: str, excluded: str, prefix: str = "") -> ToolRow:
    """The row of computer use; environments are the same words with a prefix, in capitals."""

    def read(value: Any) -> str | None:
        return value.removeprefix(prefix).lower() if type(value) is str else None

    def write(word: str) -> str:
        return prefix + word.upper() if prefix else word

    options = {"environment": (environment, Form(read, write)), "excluded": (excluded, TEXTS)}
    quiet = {environment: f"{prefix}UNSPECIFIED"}
    return ToolRow(ComputerUse, (tag,), options, quiet=quiet)


def read_actions(row: ToolRow, value: Object) -> Group:
    """Take the functions of a definition out of it; other environments than a browser have more of them."""
    read = row.read(value)
    tool: Any = ComputerUse() if read is None else read[0]
    if tool.environment not in (None, _BROWSER):
        value[row.options["environment"][0]] = tool.environment
    offered = [name for name in _ACTIONS if name not in (tool.excluded or ())]
    return Group("", tuple((_function(name), "") for name in offered))


def _function(name: str) -> Tool:
    description, needed, optional = _ACTIONS[name]
    schema = {"type": "object", "properties": {**needed, **optional}, "required": [*needed]}
    return new_tool(name, description, write_json(schema))  # type: ignore[no-any-return]
