"""The toolsets of Messages: one tool for all actions of a computer or a browser, which the client runs.

A call names the action and the toolset. Written against the types of anthropic 2.10.0 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cannery.messages.json_text import write_json
from cannery.messages.requests import Tool, new_tool
from cannery.wire.bodies import Object
from cannery.wire.hosted import Group

_TEXT, _WHOLE, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
_TEXTS = {"type": "array", "items": _TEXT}
_POINT = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_REGION = {"type": "array", "items": _WHOLE, "minItems": 4, "maxItems": 4}
_SIDE = {"type": "string", "enum": ["up", "down", "left", "right"]}
_PLACE = {
    "type": "object",
    "properties": {"type": {"const": "coordinate"}, "x": _WHOLE, "y": _WHOLE},
    "required": ["type", "x", "y"],
}
_ELEMENT = {
    "type": "object",
    "properties": {"type": {"const": "ref"}, "ref": _TEXT},
    "required": ["type", "ref"],
}
_TARGET = {"anyOf": [_PLACE, _ELEMENT]}
_VALUE = {"anyOf": [_TEXT, _NUMBER, {"type": "boolean"}]}

# An action: its description, its required arguments, and its optional ones.
_Action = tuple[str, Mapping[str, Any], Mapping[str, Any]]
_AT = {"coordinate": _POINT, "text": _TEXT}
_CLICKS = {
    "left_click": "Click the left mouse button",
    "right_click": "Click the right mouse button",
    "middle_click": "Click the middle mouse button",
    "double_click": "Click the left mouse button twice",
    "triple_click": "Click the left mouse button three times",
}
_COMPUTER: dict[str, _Action] = {
    "key": ("Press a key, or several joined by +.", {"text": _TEXT}, {"repeat": _WHOLE}),
    "hold_key": ("Hold a key down.", {"text": _TEXT, "duration": _WHOLE}, {}),
    "type": ("Type a text.", {"text": _TEXT}, {}),
    "cursor_position": ("Get the position of the cursor.", {}, {}),
    "mouse_move": ("Move the cursor to a pixel.", {"coordinate": _POINT}, {}),
    "left_mouse_down": ("Press the left mouse button and hold it.", {}, {}),
    "left_mouse_up": ("Release the left mouse button.", {}, {}),
    **{name: (f"{what} at a pixel, or at the cursor.", {}, _AT) for name, what in _CLICKS.items()},
    "left_click_drag": (
        "Drag from one pixel to another.",
        {"start_coordinate": _POINT, "coordinate": _POINT},
        {"text": _TEXT},
    ),
    "scroll": (
        "Scroll at a pixel, or at the cursor.",
        {"scroll_direction": _SIDE, "scroll_amount": _WHOLE},
        _AT,
    ),
    "wait": ("Wait for some seconds.", {"duration": _WHOLE}, {}),
    "screenshot": ("Take a picture of the screen.", {}, {}),
    "zoom": ("Take a picture of a part of the screen.", {"region": _REGION}, {}),
}
_TAB = {"tab_id": _TEXT}
_BROWSER: dict[str, _Action] = {
    "navigate": ("Go to an address, or back, forward or reload.", {"url": _TEXT}, _TAB),
    "list_tabs": ("List the open tabs.", {}, {}),
    "new_tab": ("Open a tab.", {}, {}),
    "switch_tab": ("Make a tab the active one.", _TAB, {}),
    "close_tab": ("Close a tab.", _TAB, {}),
    "read_page": (
        "Read the page as a tree of elements with references.",
        {},
        {
            "ref": _TEXT,
            "depth": _WHOLE,
            "filter": {"type": "string", "enum": ["all", "interactive"]},
            **_TAB,
        },
    ),
    "get_page_text": ("Read the text of the page.", {}, _TAB),
    "read_console": ("Read what the page wrote to the console.", {}, _TAB),
    "read_network": ("Read the requests that the page made.", {}, _TAB),
    "find": ("Find elements by a description.", {"query": _TEXT}, _TAB),
    "form_input": ("Set a form element.", {"target": _ELEMENT, "value": _VALUE}, _TAB),
    "file_upload": (
        "Choose files for a form element.",
        {"target": _ELEMENT},
        {"paths": _TEXTS, "document_ids": _TEXTS, **_TAB},
    ),
    "scroll_to": ("Scroll an element into view.", {"target": _ELEMENT}, _TAB),
    "screenshot": ("Take a picture of the page.", {}, _TAB),
    "zoom": ("Take a picture of a part of the page.", {"region": _REGION}, _TAB),
    **{
        name: (
            f"{what} on an element or at a place.",
            {"target": _TARGET},
            {"modifiers": _TEXT, **_TAB},
        )
        for name, what in _CLICKS.items()
    },
    "hover": ("Move the pointer over an element or a place.", {"target": _TARGET}, _TAB),
    "left_click_drag": (
        "Drag from one place to another.",
        {"from": _PLACE, "target": _PLACE},
        _TAB,
    ),
    "left_mouse_down": ("Press the left mouse button and hold it.", {"target": _PLACE}, _TAB),
    "left_mouse_up": ("Release the left mouse button.", {"target": _PLACE}, _TAB),
    "mouse_move": ("Move the pointer to a place.", {"target": _PLACE}, _TAB),
    "scroll": (
        "Scroll at a place.",
        {"scroll_direction": _SIDE, "target": _PLACE},
        {"scroll_amount": _WHOLE, **_TAB},
    ),
    "type": ("Type a text.", {"text": _TEXT}, _TAB),
    "key": ("Press a key, or several joined by +.", {"text": _TEXT}, {"repeat": _WHOLE, **_TAB}),
    "hold_key": ("Hold a key down.", {"text": _TEXT, "duration": _NUMBER}, _TAB),
    "wait": ("Wait for some seconds.", {"duration": _NUMBER}, _TAB),
    "javascript_exec": ("Run JavaScript in the page.", {"text": _TEXT}, _TAB),
}
TOOLSETS = {
    "computer_toolset_20260801": ("computer", _COMPUTER),
    "browser_toolset_20260801": ("browser", _BROWSER),
}


def read_toolset(tag: str, value: Object) -> Group:
    """Take the functions of a toolset out of its definition: all that it does not disable."""
    name, actions = TOOLSETS[tag]
    configs = value.get("configs")
    tools = []
    for action, told in actions.items():
        config = configs.get(action) if type(configs) is dict else None
        is_on = config.pop("enabled", None) if type(config) is dict else None
        if is_on is not False:
            tools.append((_function(action, *told), ""))
    return Group(name, tuple(tools))


def _function(
    name: str, description: str, needed: Mapping[str, Any], optional: Mapping[str, Any]
) -> Tool:
    schema = {"type": "object", "properties": {**needed, **optional}, "required": [*needed]}
    return new_tool(name, description, write_json(schema))  # type: ignore[no-any-return]
