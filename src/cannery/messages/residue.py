"""What a wire message said beyond our model, kept so that the same dialect gets it back.

Residue sits beside a value and never in its identity. It is JSON text, so it is immutable and can
be stored.
"""

from __future__ import annotations

from msgspec import Struct

# The form of instructions that led their conversation, once something was put before them.
PREAMBLE = "preamble"


class Residue(Struct, frozen=True, gc=False):
    """The leftovers of one value in one dialect.

    ``part`` belongs to the value itself, ``envelope`` to the wire message that it opens, ``form``
    names the shape that the message's content had where that is not the usual one, ``model`` is who
    made a signature among them, and ``cache`` is a cache mark in words that every dialect
    understands: ``short`` or ``long``. ``facts`` is a JSON object of what is known about the message and was not
    said in it: ``usage`` and ``cost``; of an imported file ``origin``, the ``fields`` that no dialect has, and
    ``unknown``, records before the message that its importer does not understand. No dialect writes them.
    When a message is edited, its envelope goes to the value that opens it then; a form
    that must survive that stands on each value of the message. ``escapes`` belongs to a whole body: the strings in it
    that are no Unicode text, with their paths.
    """

    dialect: str
    part: str | None = None
    envelope: str | None = None
    form: str | None = None
    model: str | None = None
    cache: str | None = None
    facts: str | None = None
    escapes: str | None = None
