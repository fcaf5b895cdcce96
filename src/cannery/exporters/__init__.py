"""Writes conversations for other programs: sessions that an agent resumes, messages of an SDK, training data.

chat
    one conversation to export: its canisters with all content, title, model, times, parent
format
    the file format of a program: a module of ``formats``, found by its name
written
    one file or line of an export, its file name, and the losses

An export is not a request: it contains nothing that is not in the conversation, and no settings.
"""

from cannery.exporters.bodies import conversation_body
from cannery.exporters.contract import Chat, Exporter, Written
from cannery.exporters.finding import exporter_names, find_exporter

__all__ = [
    "Chat",
    "Exporter",
    "Written",
    "conversation_body",
    "exporter_names",
    "find_exporter",
]
