"""Reading Chat Completions bodies.

A message becomes one canister for each part, joined; what the model has no place for is remembered as the difference to
what writing would give. Roles are normalized first, so a client's odd spelling never comes back.
"""

from __future__ import annotations

import msgspec

from cannery.dialects.openai_chat.settings import (
    CONTROL_PATHS,
    NAME,
    old_names,
    read_controls,
    read_tool_choice,
    write_settings,
)
from cannery.families.chat.reading import ChatReader
from cannery.families.chat.tools import read_tools, tool_paths
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, guarded, read_object
from cannery.wire.losses import Report
from cannery.wire.places import Places, note_settings
from cannery.wire.residues import patch_text


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = ChatReader(NAME, body.get("model"))
    reader.messages(body)
    places.canisters.extend(reader.paths)
    note_settings(places, body, CONTROL_PATHS)
    places.tools.extend(tool_paths(body))
    model = body.get("model")
    form = old_names(body)
    request = new_request(
        Conversation.trusted(reader.canisters),
        model if type(model) is str else absent,
        read_tools(NAME, body),
        read_tool_choice(body),
        read_controls(body),
        body["stream"] if type(body.get("stream")) is bool else absent,
        None if form is None else Residue(NAME, form=form),
        NAME,
    )
    rest = {key: item for key, item in body.items() if key != "messages"}
    patch = patch_text(write_settings(request, Report()), rest)
    if patch is None:
        return request  # type: ignore[no-any-return]
    return msgspec.structs.replace(request, residue=Residue(NAME, envelope=patch, form=form))  # type: ignore[no-any-return]
