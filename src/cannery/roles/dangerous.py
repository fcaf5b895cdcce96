"""Names that claim an authority no role has; normalization never maps one, whatever is configured.

A name is compared by its skeleton: compatibility forms unfolded, accents, separators and invisible characters dropped,
look-alike letters and digits replaced, so that ``Super_User``, full-width ``ＲＯＯＴ``, ``adm1n`` and a Cyrillic ``а``
in ``аdmin`` do not pass. A name is dangerous if its skeleton *contains* a dangerous one ("system_admin"): a false alarm
costs the operator a clear configuration error, a missed one costs more.
"""

# ruff: noqa: RUF001, RUF002 — look-alike letters are the data of this module.

from __future__ import annotations

import re
import unicodedata

DANGEROUS_NAMES = (
    "admin",
    "moderator",
    "operator",
    "owner",
    "privileged",
    "root",
    "sudo",
    "superuser",
    "sysop",
)
"""Dangerous at any position in a name; "administrator" and similar names contain one."""

DANGEROUS_WORDS = ("god", "godmode")
"""Dangerous only as a whole word: too short to forbid inside other words."""

LONGEST_INSPECTED = 256

_LOOKALIKES = {
    "a": "аɑαᴀ@4",
    "b": "вʙβ",
    "d": "ԁɗđᴅ",
    "e": "еєεᴇ3",
    "g": "ɡɢց",
    "i": "іιıɪӏ1!|",
    "m": "мᴍ",
    "n": "ոпиηɴ",
    "o": "оοօᴏø0",
    "p": "рρᴘ",
    "r": "гʀɾ",
    "s": "ѕꜱ5$",
    "t": "тτᴛ7",
    "u": "υսᴜ",
    "v": "ѵνᴠ",
    "w": "ѡωԝᴡ",
    "y": "уγʏ",
}
_REPLACED = str.maketrans({twin: letter for letter, twins in _LOOKALIKES.items() for twin in twins})
_DIGITS_DROPPED = str.maketrans("", "", "0123456789")


def find_dangerous_name(name: str) -> str | None:
    """Return the dangerous name hidden in this one, or None."""
    folded = unicodedata.normalize("NFKD", name[:LONGEST_INSPECTED]).casefold()
    for plain in (folded, folded.translate(_DIGITS_DROPPED)):
        found = _find_in(plain.translate(_REPLACED))
        if found is not None:
            return found
    return None


def _find_in(plain: str) -> str | None:
    words = re.findall("[a-z]+", plain)
    skeleton = "".join(words)
    for dangerous in DANGEROUS_NAMES:
        if dangerous in skeleton:
            return dangerous
    return next((word for word in DANGEROUS_WORDS if word in words or word == skeleton), None)
