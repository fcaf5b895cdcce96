"""Reads Ollama's messages: they are flat, their text is one string, and their images stand beside it.

A call may lack an id and a result a call id: then results are matched to calls by name and order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.families.chat.result_pairing import WaitingCalls
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.content import Origin, new_image, new_parts, new_reasoning, new_text
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import OPENAI
from cannery.wire.arguments import argument_text
from cannery.wire.bodies import Object, Reader, decoded
from cannery.wire.markers import flag_error, read_error_flag
from cannery.wire.media import sniff, split_data_url
from cannery.wire.places import Path, path_text
from cannery.wire.residues import nested, respelled
from cannery.wire.wire_roles import read_role

# An image, and the patch of its spelling.
_Image = tuple[Any, Object | None]


class OllamaReader(Reader):
    """Reads the messages of one body, in order; ``places`` takes the path of each canister.

    ``content`` is the field that holds the text of a message.
    """

    def __init__(
        self,
        dialect: str,
        places: list[Path],
        model: Any = None,
        call_stem: str = "call_",
        content: str = "content",
    ) -> None:
        super().__init__(dialect)
        self._key = content
        self.model = model if type(model) is str else None
        self.canisters: list[AnyCanister] = []
        self.places = places
        self._when = now()
        self._stem = call_stem
        self._waiting = WaitingCalls()

    def messages(self, listed: Any) -> None:
        """Read all messages of a body."""
        for index, message in enumerate(self.list(listed, "messages")):
            if type(message) is not dict:
                self.object(message, f"messages[{index}]")
            role = message.pop("role", absent)
            if role is absent:
                self.fail(f"messages[{index}].role", "is required")
            if type(role) is not str or role not in OPENAI.readings:
                role = read_role(self.dialect, role, OPENAI, f"messages.{index}.role")
            self.message(message, role, ("messages", index))

    def message(self, message: Object, role: str, path: Path) -> None:
        """One message."""
        for key, value in message.items():
            if type(value) is dict:
                message[key] = decoded(value)
        if role == "assistant":
            self.assistant(message, path)
        elif role in ("tool", "function"):
            self._result(message, role, path)
        else:
            self.spoken(message, role, path)

    def add(self, canister: AnyCanister, path: Path) -> None:
        """Add a canister with its place."""
        self.canisters.append(canister)
        self.places.append(path)

    def _content(self, message: Object, path: Path) -> tuple[str, str | None]:
        """The text of a message, and its form if it has none."""
        content = message.pop(self._key, absent)
        if type(content) is str:
            return content, None
        if content is absent:
            return "", "absent"
        if content is not None:
            self.fail(path + (self._key,), "expected a string")
        return "", "null"

    def _images(self, message: Object, path: Path) -> list[_Image]:
        images = message.get("images")
        if images is None or images == []:
            return []
        found = []
        for index, data in enumerate(self.list(images, path + ("images",))):
            found.append(_read_image(self.text(data, path + ("images", index))))
        del message["images"]
        return found

    def _head(
        self, start: int, message: Object, form: str | None, more: Object | None = None
    ) -> None:
        """Let the first canister of a message keep its form and the rest of it."""
        if not (message or more or form):
            return
        envelope = nested(message, more or {})
        head = self.canisters[start]
        part = None if head.residue is None else head.residue.part
        text = None if envelope is None else write_json(envelope)
        residue = Residue(self.dialect, part, text, form)
        msgspec.structs.force_setattr(head, "residue", residue)

    def spoken(self, message: Object, role: str, path: Path) -> None:
        """A system or user message."""
        start = len(self.canisters)
        if role == "developer":
            message["role"] = role
        text, form = self._content(message, path)
        images = self._images(message, path) if role == "user" and message else []
        if text or not images:
            if role == "user":
                canister = new_user(text, self._when)
            else:
                rank = "developer" if role == "developer" else "system"
                canister = new_supervisor(text, self._when, False, None, None, rank)
            self.add(canister, path if form == "absent" else path + (self._key,))
        elif form is None:
            form = "string"
        self._show(images, path, start, new_user)
        self._head(start, message, form)

    def _show(self, images: list[_Image], path: Path, start: int, make: Any) -> None:
        """Add the images of a message."""
        for index, (held, patch) in enumerate(images):
            residue = None if patch is None else Residue(self.dialect, write_json(patch))
            joined = len(self.canisters) > start
            self.add(make(held, self._when, joined, residue), path + ("images", index))

    def assistant(self, message: Object, path: Path) -> None:
        """An assistant message: thoughts, text, images, calls."""
        start = len(self.canisters)
        text, form = self._content(message, path)
        if text and not message:
            self.add(new_assistant(text, self._when), path + (self._key,))
            return
        thought = message.get("thinking")
        if type(thought) is str and thought:
            del message["thinking"]
            held = new_reasoning((thought,), (), None, None, Origin(self.dialect, self.model))
            self.add(new_assistant(held, self._when), path + ("thinking",))
        images = self._images(message, path)
        calls = message.get("tool_calls")
        if calls is not None and type(calls) is not list:
            self.list(calls, path + ("tool_calls",))
        if text or not (images or calls or len(self.canisters) > start):
            joined = len(self.canisters) > start
            self.add(new_assistant(text, self._when, joined), path + (self._key,))
        self._show(images, path, start, new_assistant)
        if calls:
            if len(self.canisters) == start:
                self.add(new_assistant(absent, self._when), path)
            del message["tool_calls"]
            for index, call in enumerate(calls):
                self._call(call, path + ("tool_calls", index), index)
        self._head(start, message, form)

    def _call(self, call: Any, path: Path, index: int) -> None:
        given: Any = call
        function: Any = given.get("function") if type(given) is dict else None
        name: Any = function.pop("name", None) if type(function) is dict else None
        if type(name) is not str:
            place = path_text(path)
            self.object(
                self.field(self.object(given, place), "function", place), f"{place}.function"
            )
            self.text(name, f"{place}.function.name")
        del given["function"]
        identifier = given.get("id")
        dropped: list[str] = []
        if type(identifier) is str and identifier:
            del given["id"]
        else:
            dropped = [] if "id" in given else ["id"]
            number = index if self._stem != "call_" else len(self.canisters)
            identifier = f"{self._stem}{number}"
        arguments = function.pop("arguments", absent)
        lacking = ["arguments"] if arguments is absent else []
        text = "" if arguments is absent else argument_text(arguments)
        is_object = type(arguments) is dict or arguments is absent
        inner = nested(function, {}, lacking)
        inner = respelled(inner, {} if is_object else {"arguments": arguments})
        patch = nested(given, {"function": inner}, dropped)
        residue = None if patch is None else Residue(self.dialect, write_json(patch))
        self._waiting.add(identifier, name)
        own = (identifier, name, False)
        self.add(new_invocation(text, self._when, True, residue, None, *own), path)

    def _result(self, message: Object, role: str, path: Path) -> None:
        if role == "function":
            message["role"] = role
        text, form = self._content(message, path)
        identifier, dropped = self._answered(message)
        images = self._images(message, path)
        error: Any = absent
        failed = read_error_flag(text)
        if failed is not None and flag_error(failed) == text:
            text, error = failed, True
        held: Any = text
        inner: Object = {}
        if images:
            words = (new_text(text),) if text else ()
            held = new_parts((*words, *(image for image, _ in images)))
            patches = {str(at): patch for at, (_, patch) in enumerate(images) if patch is not None}
            inner = {"images": {"i": patches} if patches else None}
        envelope = nested(message, inner, dropped)
        residue = None
        if envelope is not None or form is not None:
            residue = Residue(
                self.dialect, None, None if envelope is None else write_json(envelope), form
            )
        own = (identifier, error)
        self.add(new_result(held, self._when, False, residue, None, *own), path)

    def _answered(self, message: Object) -> tuple[str, list[str]]:
        """The id of the answered call, and the keys that the result lacks."""
        name = message.get("tool_name", message.get("name"))
        given = message.get("tool_call_id")
        dropped = [] if "tool_call_id" in message else ["tool_call_id"]
        if type(given) is str and given:
            del message["tool_call_id"]
            self._waiting.answer(given)
            found = given
        else:
            found = self._waiting.take(name if type(name) is str else None, len(self.canisters))
        return found, dropped


def _read_image(data: str) -> _Image:
    """An image: bare base64, with the type shown by its first bytes."""
    inline = split_data_url(data)
    if inline is not None:
        payload = inline[1]
        head = data[: len(data) - len(payload.text)]
        return new_image(payload, inline[0]), {"p": [0, len(payload.text), head]}
    payload = Base64(data)
    return new_image(payload, sniff(payload) or "image/png"), None
