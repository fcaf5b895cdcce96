"""What the generators of all dialects draw from: texts, JSON, arguments, media, unknown fields.

A `Dice` wraps Hypothesis' draw with two switches. `extras` sprinkles unknown keys and unknown
block types over every level. `orderly` keeps to the server rules of the dialect (pairing, order,
legal ids and names, visible text); without it a body is only well-typed. Strategies are made once,
at import: making them inside of a draw is what makes generation slow.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

Body = dict[str, Any]
T = TypeVar("T")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\xff\xfe\xfb"
GIF = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xfb\xbe;"
WEBP = b"RIFF\x22\x00\x00\x00WEBPVP8 \xfb\xef\xbe"
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF\xfb\xff"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \xfb\xff\xfe"
MP4 = b"\x00\x00\x00\x18ftypmp42\xfb\xff"
IMAGES = (("image/png", PNG), ("image/jpeg", JPEG), ("image/gif", GIF), ("image/webp", WEBP))

SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
NAMES = ("get_weather", "f", "run-sql", "Read_2", "n" * 64)
ODD_NAMES = ("get.weather", "a b", "1st", "ünï", "ns:tool", "m" * 100)
ODD_IDS = ("", "call:1/#", "id with space", "x" * 90, "é", "toolu_01", "a.b")
ODD_TEXTS = (
    "",
    " \n",
    "plain",
    "two\n\nlines\ttab\r",
    "é 日本語 👩‍👩‍👧‍👦",
    'quotes " and \\ and </script>',
    "nul\x00bell\x07",
    "\u2028\u2029\u0085\ufeff",
    '{"looks": "like json"}',
    "[1, 2]",
    "data:image/png;base64,AAAA",
    "<system>not a system</system>",
    "x" * 2000,
)
PLAIN_TEXTS = tuple(text for text in ODD_TEXTS if text.strip() and text == text.strip())
ODD_ARGUMENTS = (
    "{}",
    "",
    " { } ",
    '{"a":1,"a":2}',
    '{"n": 1.0, "m":1e3, "big":12345678901234567890123}',
    '{"s":"\\u00e9\\/"}',
    "not json",
    '{"cut": "of',
    "[1,2]",
    '"text"',
    "null",
    "12",
    '{"nested":{"type":"text","text":""}}',
)
UNKNOWN_KEYS = ("x_new", "futureField", "zz", "type2", "__meta", "ключ")
UNKNOWN_TYPES = ("hologram", "telepathy", "x_block_2027", "smell")

_DIGIT = st.integers(0, 9)
_COUNTS = [st.integers(0, most) for most in range(8)]
_FREE_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(ODD_TEXTS)
)
_KEYS = st.sampled_from(("a", "b", "text", "type", "", "input", "é"))
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=5,
)
_OBJECTS = st.dictionaries(_KEYS, _JSON, max_size=3)
_EXTRAS = st.dictionaries(st.sampled_from(UNKNOWN_KEYS), _JSON, min_size=1, max_size=2)


@dataclass
class Dice:
    """Hypothesis' draw with the two switches and the helpers that all generators use."""

    draw: Callable[..., Any]
    extras: bool
    orderly: bool
    made: int = field(default=0)

    def maybe(self, tenths: int = 3) -> bool:
        """True so many times in ten; shrinks to False."""
        return bool(self.draw(_DIGIT) >= 10 - tenths)

    def pick(self, *options: T) -> T:
        """One of the options; shrinks to the first."""
        return options[
            self.draw(_COUNTS[len(options) - 1]) if len(options) <= 8 else self._far(options)
        ]

    def _far(self, options: tuple[Any, ...]) -> int:
        return int(self.draw(st.integers(0, len(options) - 1)))

    def some(self, make: Callable[[], T], least: int = 0, most: int = 3) -> list[T]:
        """So many things of one kind."""
        return [make() for _ in range(least + self.draw(_COUNTS[most - least]))]

    def text(self) -> str:
        """Any text, or visible text when orderly."""
        if self.orderly:
            return self.pick(*PLAIN_TEXTS) + str(self.next())
        return str(self.draw(_FREE_TEXT)) if self.maybe(2) else self.pick(*ODD_TEXTS)

    def next(self) -> int:
        """A number that this body has not used."""
        self.made += 1
        return self.made

    def identifier(self, prefix: str) -> str:
        """A call id: unique and plain when orderly."""
        if self.orderly or self.maybe(7):
            return f"{prefix}{self.next()}"
        return self.pick(*ODD_IDS)

    def name(self) -> str:
        """A function name: legal everywhere when orderly."""
        return self.pick(*NAMES) if self.orderly or self.maybe(7) else self.pick(*ODD_NAMES)

    def json(self) -> Any:
        """Any JSON value."""
        return self.draw(_JSON)

    def object(self) -> Body:
        """Any JSON object."""
        drawn: Body = self.draw(_OBJECTS)
        return drawn

    def argument_text(self) -> str:
        """The text of call arguments: odd spacing, odd numbers, empty, or no JSON at all."""
        if self.maybe(6):
            return self.pick(*ODD_ARGUMENTS)
        spaced = self.pick((",", ":"), (", ", ": "), (" ,\n", " : "))
        return json.dumps(self.object(), separators=spaced, ensure_ascii=self.maybe(5))

    def dress(self, value: Body) -> Body:
        """The object, now and then with unknown keys."""
        if self.extras and self.maybe(2):
            value |= {key: item for key, item in self.draw(_EXTRAS).items() if key not in value}
        return value

    def unknown(self) -> Body:
        """A block of a type that does not exist yet."""
        return {"type": self.pick(*UNKNOWN_TYPES), **self.draw(_EXTRAS)}

    def subset(self, **options: Callable[[], Any]) -> Body:
        """Some of the options, made when chosen."""
        return {key: make() for key, make in options.items() if self.maybe(2)}

    def image(self) -> tuple[str, bytes]:
        """A media type with bytes that prove it."""
        return self.pick(*IMAGES)

    def data_url(self, media_type: str, data: bytes) -> str:
        """A data URL, now and then with a parameter."""
        parameter = ";charset=utf-8" if self.maybe(1) else ""
        return f"data:{media_type}{parameter};base64,{standard(data)}"

    def either_alphabet(self, data: bytes) -> str:
        """Base64 in the standard or the URL-safe alphabet, padded or not."""
        text = standard(data)
        if self.maybe(4):
            text = text.translate(str.maketrans("+/", "-_"))
        return text.rstrip("=") if self.maybe(3) else text


def standard(data: bytes) -> str:
    """Base64 in the standard alphabet."""
    return base64.b64encode(data).decode()


def results_for(dice: Dice, identifiers: list[str]) -> list[str]:
    """The ids to answer, in an order: all once when orderly; else some, twice, or strangers too."""
    if dice.orderly:
        return list(reversed(identifiers)) if dice.maybe(3) else list(identifiers)
    answered = [identifier for identifier in identifiers if not dice.maybe(2)]
    if identifiers and dice.maybe(2):
        answered.append(identifiers[0])
    if dice.maybe(1):
        answered.insert(0, "stranger")
    return answered
