"""The parts of a wire message that the model cannot hold, kept so that the same dialect gets them back.

Residue is attached to a value and never part of its identity. It is JSON text, so it is immutable and can be stored.
"""

from __future__ import annotations

from msgspec import Struct

# The form of leading instructions that now stand after other canisters.
PREAMBLE = "preamble"


class Residue(Struct, frozen=True, gc=False):
    """The residue of one value in one dialect.

    ``part`` belongs to the value itself, ``envelope`` to the wire message that it opens. ``form`` names the shape of
    the message's content if it is unusual, ``model`` the producer of a signature, and ``cache`` is a cache mark in
    terms that every dialect understands: ``short`` or ``long``. ``facts`` is a JSON object of known facts that the
    message did not state: ``usage`` and ``cost``; for an imported file ``origin``, the ``fields`` that no dialect has,
    and ``unknown``, records before the message that its importer does not understand. No dialect writes them. When a
    message is edited, its envelope moves to the value that opens it then; a form that must survive that is on each
    value of the message. ``escapes`` belongs to a whole body: its strings that are not Unicode text, with their paths.
    """

    dialect: str
    part: str | None = None
    envelope: str | None = None
    form: str | None = None
    model: str | None = None
    cache: str | None = None
    facts: str | None = None
    escapes: str | None = None
