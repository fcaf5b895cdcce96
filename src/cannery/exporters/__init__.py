"""Conversations for other programs: sessions that an agent resumes, messages of an SDK, rows to train on.

chat
    what is exported of one conversation: its canisters with all content, title, model, times, parent
format
    how a program writes its chats: a module of ``formats``, found by its name
written
    one file or line of an export, the name that the program gives such a file, and what could not be said

An export is not a request: nothing is said in it that was not said in the conversation, and no setting is given.
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
