"""Calls of ShareGPT: the JSON text in a ``function_call`` turn, both ways.

Arguments are taken out of the text and put back as exactly the same text. A text in another spelling than ours, which
is that of Python's ``json.dumps``, is kept whole with a digest of our spelling: it is written again only while it still
has the same meaning as the model.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cannery.messages.json_text import decode_json, is_json_object, write_json
from cannery.wire.residues import recall

# The name of a call without one in its turn, and the form of such a value: it is the argument text itself.
NAMELESS = "function_call"
BARE = "bare"
# The form of a call that shares its turn with the one before.
MORE = "more"

_read_one = msgspec.json.Decoder(dict[str, Raw]).decode
_read_many = msgspec.json.Decoder(list[dict[str, Raw]]).decode
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_DIGEST = "="
_DIGITS = 16


class Call(Struct, frozen=True):
    """One call: its name, its exact argument text, and the patch that sets its other keys."""

    name: str
    arguments: str
    part: str | None = None


def read_calls(value: str) -> list[Call] | None:
    """The calls in a value; None if it has none."""
    try:
        found = _read_many(value) if value.lstrip()[:1] == "[" else [_read_one(value)]
        calls = [_read_call(fields) for fields in found]
    except (*UNREADABLE, ValueError):
        return None
    return None if None in calls or not calls else calls  # type: ignore[return-value]


def _read_call(fields: dict[str, Raw]) -> Call | None:
    name = decode_json(bytes(fields.pop("name"))) if "name" in fields else None
    if type(name) is not str or not name:
        return None
    arguments = _argument_text(fields.pop("arguments", None))
    others = {key: decode_json(bytes(item)) for key, item in fields.items()}
    return Call(name, arguments, write_json({"s": others}) if others else None)


def _argument_text(raw: Raw | None) -> str:
    text = "" if raw is None else bytes(raw).decode()
    if text.startswith('"'):
        return str(decode_json(text))
    return "" if text == "null" else text


def write_call(name: str, arguments: str, part: str | None = None) -> str:
    """The usual spelling of a call; arguments that are not an object are a string."""
    if not arguments.strip():
        arguments = "{}"
    elif not is_json_object(arguments):
        arguments = write_json(arguments)
    others = "" if part is None else _write_others(part)
    return f'{{"name": {write_json(name)}, "arguments": {arguments}{others}}}'


def _write_others(part: str) -> str:
    others = decode_json(part).get("s", {})
    return "".join(f", {write_json(key)}: {write_json(item)}" for key, item in others.items())


def write_calls(calls: list[str]) -> str:
    """The usual spelling of the calls of one turn."""
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def keep_spelling(usual: str, value: Any) -> str | None:
    """The form of a value with an unusual spelling; None for the usual one."""
    if type(value) is str and value == usual:
        return None
    return f"{_digest(usual)} {write_json({'v': value})}"


def is_digested(form: str) -> bool:
    """Whether a form is one of ``keep_spelling``; older stores hold patches of the usual spelling."""
    return form.startswith(_DIGEST)


def respell(usual: str, form: str) -> Any:
    """The value kept by a form if it still has the same meaning, else the usual spelling."""
    digest, _, patch = form.partition(" ")
    return recall(usual, patch) if digest == _digest(usual) else usual


def _digest(usual: str) -> str:
    digest = sha256(usual.encode("utf-8", "surrogatepass")).hexdigest()
    return _DIGEST + digest[:_DIGITS]
