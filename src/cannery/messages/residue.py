"""What a wire message said beyond our model, kept so that the same dialect gets it back.

Residue sits beside a value and never in its identity. It is JSON text, so it is immutable and can
be stored.
"""

from __future__ import annotations

from msgspec import Struct


class Residue(Struct, frozen=True, gc=False):
    """The leftovers of one value in one dialect.

    ``part`` belongs to the value itself, ``envelope`` to the wire message that it opens, ``form``
    names the shape that the message's content had where that is not the usual one, ``model`` is who
    made a signature among them, and ``cache`` is a cache mark in words that every dialect
    understands: ``short`` or ``long``.
    """

    dialect: str
    part: str | None = None
    envelope: str | None = None
    form: str | None = None
    model: str | None = None
    cache: str | None = None
