"""Hosted tools for another dialect: offers, calls, and streamed responses.

The table of the source reads a meaning, the table of the target writes it (``cannery.wire.hosted``): no pair has a rule
of its own. Before a writer sees a request, each tool of another dialect has become one of the target, a function, or a
loss; each block has become blocks of the target, a call, a result, or text, or is left for the writer to report.
"""

from cannery.hosting.blocks import WAYS, check_way, hosted_uses
from cannery.hosting.calls import archived, said, said_answer
from cannery.hosting.offers import Offer, offered
from cannery.hosting.streams import stream_options

__all__ = [
    "WAYS",
    "Offer",
    "archived",
    "check_way",
    "hosted_uses",
    "offered",
    "said",
    "said_answer",
    "stream_options",
]
