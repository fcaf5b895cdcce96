"""Where the canisters of a Chat body stand, for losses: the canisters of a common shape tell it themselves."""

from __future__ import annotations

from cannery.dialects.openai_chat.fast import read_fast
from cannery.messages.absence import absent
from cannery.messages.role import Role


def read_paths(body: bytes) -> list[str] | None:
    """Where each canister of a body stands; None if only the general reader knows."""
    request = read_fast(body)
    if request is None:
        return None
    paths: list[str] = []
    message, part = -1, 0
    for canister in request.conversation:
        role = canister.role
        if role is Role.Invocation:
            paths.append(f"messages[{message}].tool_calls[{part}]")
            part += 1
            continue
        if canister.joined:
            part += 1
        else:
            message, part = message + 1, 0
        if role is Role.Result or canister.held is absent:
            paths.append(f"messages[{message}]")
        elif type(canister.held) is str and canister.residue is None and not canister.joined:
            paths.append(f"messages[{message}].content")
        else:
            paths.append(f"messages[{message}].content[{part}]")
    for index in range(len(paths) - 1):
        # The first of several parts looks like a message of its own.
        if paths[index + 1].endswith(".content[1]"):
            paths[index] = paths[index + 1].removesuffix("[1]") + "[0]"
    return paths
