"""Claude Code's transcripts: lines chained by ``parentUuid``, each with a message of Anthropic's API.

On resuming, the agent sends the chain that ends in the last line, from the last compaction on. Several lines may
contain one block each of the same message, and results of parallel calls are beside the chain, each below its own call.
Seen with Claude Code 2.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import Object
from cannery.doctor.sessions.contract import Line, Session, line_bytes, text_of

_SPOKEN = ("user", "assistant", "message")
# Fields about the context of a line, which a new one copies from the line before it.
_SHARED = (
    "isSidechain",
    "userType",
    "entrypoint",
    "cwd",
    "sessionId",
    "version",
    "gitBranch",
    "slug",
    "timestamp",
)


class Transcript(Session):
    """A transcript of Claude Code."""

    dialect = "anthropic_messages"

    def history(self) -> Iterator[tuple[Any, Line]]:
        """The messages of the chain; the lines of one API message are adjacent."""
        spoken = [line for line in self.lines if _is_spoken(line)]
        chain = self._chain(spoken)
        answers = frozenset(filter(None, chain.values()))
        found: list[tuple[Any, Line]] = []
        known: set[str] = set()
        for line in spoken:
            if not _is_sent(line, chain, answers):
                continue
            message, own = line.object["message"], text_of(line.object["message"].get("id"))
            place = len(found)
            if own and own in known:
                # It is usually the previous one.
                while found[place - 1][0].get("id") != own:
                    place -= 1
            known.add(own)
            found.insert(place, (message, line))
        yield from found

    def _chain(self, spoken: list[Line]) -> dict[str, str]:
        """The lines from the last one up to the root, by uuid, with the id of their message."""
        above = {
            text_of(line.object.get("uuid")): line for line in self.lines if line.object.get("uuid")
        }
        if not spoken or not above:
            return {}
        chain: dict[str, str] = {}
        name = text_of(spoken[-1].object.get("uuid"))
        while name in above and name not in chain:
            value = above[name].object
            message = value.get("message")
            chain[name] = text_of(message.get("id")) if isinstance(message, dict) else ""
            name = text_of(value.get("parentUuid")) or (
                "" if "parentUuid" in value else self._before(name)
            )
        return chain

    def _before(self, name: str) -> str:
        """The line before one without a parent, as in old transcripts."""
        last = ""
        for line in self.lines:
            own = text_of(line.object.get("uuid"))
            if own == name:
                return last
            last = own or last
        return ""

    def model(self) -> str | None:
        """The model of the last answer."""
        made = [text_of(message.get("model")) for message, _ in self.said]
        return next((name for name in reversed(made) if name and not name.startswith("<")), None)

    def makers(self) -> dict[int, str]:
        """The models of the answers."""
        return {
            index: message["model"]
            for index, (message, _) in enumerate(self.said)
            if text_of(message.get("model")) and not message["model"].startswith("<")
        }

    def new_line(self, message: Any, behind: Line | None) -> bytes:
        """A line whose parent is the one before it."""
        before = behind.object if behind is not None else {}
        own = _uuid(before, message)
        value: Object = {"parentUuid": before.get("uuid")}
        value |= {key: before[key] for key in _SHARED if key in before}
        value |= {"type": message["role"], "message": message, "uuid": own}
        return line_bytes(value)

    def relink(self, gone: list[Line], added: list[tuple[Any, Line | None]]) -> None:
        """Update the parents of the lines after a change."""
        parents = {text_of(line.object.get("uuid")): line.object.get("parentUuid") for line in gone}
        for line in self.lines:
            parent = text_of(line.object.get("parentUuid"))
            while parent in parents:
                parent = text_of(parents[parent])
                self._replace(line, parent or None)
        for message, behind in added:
            if behind is not None:
                self._hang(behind, _uuid(behind.object, message))

    def _hang(self, behind: Line, own: str) -> None:
        """Insert a new line between one and the next of the chain; other lines of its message keep their parents."""
        name, message = behind.object.get("uuid"), behind.object.get("message")
        identifier = message.get("id") if isinstance(message, dict) else None
        for line in self.lines:
            if line.object.get("parentUuid") != name or line.number <= behind.number:
                continue
            other = line.object.get("message")
            is_same = isinstance(other, dict) and identifier and other.get("id") == identifier
            if not is_same and not _is_result(other):
                self._replace(line, own)

    @staticmethod
    def _replace(line: Line, parent: str | None) -> None:
        """Change the parent, and preserve the other bytes of the line."""
        old, line.value["parentUuid"] = line.object.get("parentUuid"), parent
        for spelling in (f'"parentUuid":"{old}"', f'"parentUuid": "{old}"'):
            if line.raw.count(spelling.encode()) == 1:
                new = "null" if parent is None else f'"{parent}"'
                written = spelling.partition(":")[0] + ":" + " " * (": " in spelling) + new
                line.raw = line.raw.replace(spelling.encode(), written.encode())
                before = line.before
                line.before = before.replace(f'"parentUuid":"{old}"', f'"parentUuid":{new}', 1)
                return


def _uuid(before: Object, message: Any) -> str:
    """A deterministic id for a new line."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{before.get('uuid')} {message}"))


def _is_spoken(line: Line) -> bool:
    value = line.object
    message = value.get("message")
    is_message = isinstance(message, dict) and isinstance(message.get("role"), str)
    return is_message and value.get("type") in _SPOKEN and value.get("isSidechain") is not True


def _is_sent(line: Line, chain: dict[str, str], answers: frozenset[str]) -> bool:
    """Whether a line is in the chain, or beside it as a part or a result of a message in the chain."""
    value, message = line.object, line.object["message"]
    if not chain or not value.get("uuid") or value["uuid"] in chain:
        return True
    if message.get("id") in answers:
        return True
    return text_of(value.get("parentUuid")) in chain and _is_result(message)


def _is_result(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def open_session(data: bytes) -> Session:
    """Open a transcript."""
    return Transcript(data)
