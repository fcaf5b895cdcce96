"""Losses and repairs: what the target cannot express, and what was changed so that a provider accepts the body.

A loss removes meaning; a repair changes only the arrangement on the wire. Both name the place in the source.
``CODES`` and ``REPAIRS`` are the tables that ``docs/losses.md`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct

from cannery.errors import InputError, LossError
from cannery.messages.absence import absent
from cannery.messages.role import Role

INFO, LOST, BLOCKED = "info", "lost", "blocked"
_ABOUT_CITATIONS = ("CITATION_APPROXIMATED", "CITATION_DROPPED")
POLICIES = ("allow", "warn", "strict")
# The facts of a file beside its bytes; the file may be a part of a result.
_OF_FILES = (".source", ".context", ".citations")
# The thinking setting, and its parts that a source may keep at separate paths.
_THINKING, _PARTS = "@thinking", ("effort", "budget", "summary")
# Prefix of a path below a place: the path starts at the wire message that holds the place, not at the place itself.
ENVELOPE = "^"
# The same, for a path that starts at the body.
_WHOLE = "$."

CODES: Mapping[str, tuple[str, str]] = {
    "AGENT_MISSING": (BLOCKED, "the body asks an agent that only its provider runs; name a model"),
    "ARGUMENTS_WRAPPED": (INFO, "arguments that are not a JSON object were wrapped in one"),
    "CACHE_MARK_DROPPED": (INFO, "the target has no such cache mark, or no more of them"),
    "CALL_DROPPED": (LOST, "the target has no tool calls"),
    "CALL_ID_DROPPED": (INFO, "the target pairs calls and results by their order, without ids"),
    "CHOICE_DROPPED": (LOST, "of several choices only the first is carried"),
    "CITATION_APPROXIMATED": (
        LOST,
        "the target says only the address, the title and the span of a citation",
    ),
    "CITATION_DROPPED": (LOST, "the target cannot carry this citation"),
    "CONTROL_CHANGED": (LOST, "a setting has only an approximate counterpart in the target"),
    "CONTROL_DEFAULTED": (INFO, "the target insists on a setting that was not given"),
    "CONTROL_DROPPED": (LOST, "the target has no such setting"),
    "CONTROL_RESPELLED": (INFO, "a setting was written in the type that the target takes"),
    "DEFAULT_DROPPED": (INFO, "a setting that has its default value was left out"),
    "DOCUMENT_TO_TEXT": (
        INFO,
        "a document was written as text, since the target has no documents",
    ),
    "ERROR_FLAG_TO_TEXT": (
        INFO,
        "the target has no error flag; the text says that the tool failed",
    ),
    "FIELD_DROPPED": (LOST, "a field that only its own dialect knows was left out"),
    "FINISH_CHANGED": (INFO, "the target has no such finish reason"),
    "FORMAT_NAME_DROPPED": (INFO, "the target has no names for output formats"),
    "FREEFORM_WRAPPED": (INFO, "the free text of a custom tool was wrapped in an object"),
    "HOSTED_APPROXIMATED": (
        LOST,
        "the target has fewer fields for a hosted tool call and its outcome",
    ),
    "HOSTED_CHANGED": (INFO, "a hosted tool call was written in the target's form of it"),
    "HOSTED_IMPLIED": (
        INFO,
        "the target's server does this by itself: it lists tools, or asks for no approval",
    ),
    "HOSTED_TO_TEXT": (INFO, "a hosted tool call was written as text"),
    "HISTORY_MISSING": (
        BLOCKED,
        "the body refers to messages that only its provider keeps; send the whole conversation",
    ),
    "MEDIA_DROPPED": (LOST, "the target cannot carry this kind of media here"),
    "MEDIA_MOVED": (INFO, "media of a tool result follow in a user message"),
    "MEDIA_TYPE_UNSUPPORTED": (LOST, "the target does not take this media type"),
    "MESSAGE_ID_DROPPED": (INFO, "the target has no ids of messages"),
    "NAME_HIDDEN": (INFO, "the name of a file is kept where the model does not see it"),
    "MODEL_DROPPED": (INFO, "a record of a data set names no model"),
    "MODEL_UNKNOWN": (INFO, "the source body names no model; give one"),
    "NAME_CHANGED": (
        INFO,
        "a function name that the target forbids was rewritten; replies map back",
    ),
    "ORDER_CHANGED": (INFO, "text after a call was moved before it"),
    "OPAQUE_DROPPED": (LOST, "a block that only its own dialect understands was left out"),
    "PREFILL_DROPPED": (LOST, "the target does not continue a trailing assistant message"),
    "PROMPT_MISSING": (
        BLOCKED,
        "the body refers to a prompt that only its provider keeps; send its text",
    ),
    "RANK_LOWERED": (INFO, "the target does not tell developer from system"),
    "REASONING_DROPPED": (LOST, "the target cannot take back this reasoning"),
    "REFERENCE_UNRESOLVABLE": (LOST, "a file id means nothing outside its own provider"),
    "REFUSAL_TO_TEXT": (INFO, "the target has no refusals; it was written as text"),
    "RESULT_DROPPED": (LOST, "one result for a call can be sent, and none in an answer"),
    "RESULT_TO_TEXT": (INFO, "a result without its call was written as user text"),
    "SIGNATURE_DROPPED": (
        LOST,
        "a signature or encrypted payload means nothing to another provider",
    ),
    "SIGNATURE_STANDIN": (INFO, "calls made elsewhere carry a stand-in signature, this one first"),
    "STANDIN_DROPPED": (INFO, "a placeholder signature means nothing to another provider"),
    "STRUCTURE_FLATTENED": (LOST, "nested parts were written as text"),
    "SUMMARY_TO_TEXT": (INFO, "a summary of what came before was written as text"),
    "TEXT_DROPPED": (LOST, "empty text was left out, since the target refuses it"),
    "TOOL_DROPPED": (LOST, "the target has no such tool"),
    "TOOLS_MOVED": (INFO, "tools that a message adds are offered from the start"),
    "TOOL_TO_FUNCTION": (
        INFO,
        "a tool that the client runs was offered as a function; replies map back",
    ),
    "TURN_DROPPED": (
        BLOCKED,
        "the target takes one question, without the turns around it; send them to a chat API",
    ),
}
# Of these nothing is left in the target.
OMISSIONS = frozenset(
    {
        *("CALL_DROPPED", "MEDIA_DROPPED", "MEDIA_TYPE_UNSUPPORTED", "OPAQUE_DROPPED"),
        *("REASONING_DROPPED", "REFERENCE_UNRESOLVABLE", "RESULT_DROPPED", "TEXT_DROPPED"),
        *("HISTORY_MISSING", "PROMPT_MISSING"),
    }
)


REPAIRS: Mapping[str, str] = {
    "alternation": "neighbours of the same role became parts of one message",
    "cache_marks": "the earliest cache marks beyond the target's limit were removed",
    "broken_unicode": "half a surrogate pair, or bytes that are not UTF-8, became U+FFFD",
    "call_ids": "a call id that the target forbids was rewritten on the call and its result",
    "duplicate_results": "a second result for the same call was left out",
    "empty_text": "blank text that the target refuses was left out",
    "first_user": "a user turn was put first",
    "function_names": "a function name that the target forbids was rewritten",
    "late_supervisors": "a late system message was folded into the neighbouring user turn",
    "media_types": "a media type that the bytes contradict was corrected",
    "orphaned_results": "a result without a call became user text",
    "prefill": "a user turn follows the trailing assistant turn",
    "result_order": "results were moved right behind their calls, in call order",
    "single_system": "leading system and developer texts became one system message",
    "unanswered_calls": "a call without a result got a synthetic error result",
}


# Repairs without which the body would not be JSON.
ALWAYS_ON = frozenset({"broken_unicode"})


Place = int | str | None
_path_of = attrgetter("path")
# A recorded loss: its code, its place, the detail, and the path below the place; a repair likewise.
Lost = tuple[str, Place, str, str]
Repaired = tuple[str, Place, str]
# Turns a place into the path of the source; also into that of the wire message that holds it.
Locate = Callable[..., str]


class Loss(Struct, frozen=True, gc=False):
    """Something that the target dialect cannot express."""

    code: str
    severity: str
    path: str
    detail: str


class Repair(Struct, frozen=True, gc=False):
    """A change made only on the wire so that a provider accepts it."""

    name: str
    path: str
    detail: str


def check_policy(policy: str) -> None:
    """Refuse an unknown policy."""
    if policy not in POLICIES:
        raise InputError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")


def check_repairs(names: object) -> None:
    """Refuse unknown names of repairs."""
    if isinstance(names, str) or not isinstance(names, Collection):
        raise InputError(f"without must be several names of repairs, got {names!r}")
    for name in names:
        if name not in REPAIRS:
            raise InputError(f"no repair {name!r}; known: {', '.join(REPAIRS)}")
        if name in ALWAYS_ON:
            raise InputError(f"the repair {name!r} cannot be switched off")


class OwnCall(Struct, frozen=True, gc=False):
    """The form of a function call in the request's dialect, if the tool was not a function there.

    ``make`` builds the tag and the block of a call from its id and arguments. Without it, the call is an ordinary
    call of ``name``, with ``part`` as its residue.
    """

    dialect: str
    name: str
    part: str | None = None
    make: Callable[[str, str], tuple[str, dict[str, Any]]] | None = None


class Aliases(Struct, frozen=True, gc=False):
    """Names and call ids that were rewritten for a target: alias to original, so that a reply can be mapped back.

    ``freeform`` are the names, as sent, of custom tools that became functions; ``own`` those of tools with other
    shapes.
    """

    names: Mapping[str, str] = {}
    ids: Mapping[str, str] = {}
    freeform: frozenset[str] = frozenset()
    own: Mapping[str, OwnCall] = {}

    def copied(self) -> Aliases:
        """A copy that a caller may change; the cached value stays as it is."""
        if self is NO_ALIASES:
            return self
        return Aliases({**self.names}, {**self.ids}, self.freeform, self.own)


NO_ALIASES = Aliases()


class Rendered(Struct, frozen=True, gc=False):
    """A wire body, and the losses and repairs of writing it; ``headers`` are those that the server needs with it."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    aliases: Aliases = NO_ALIASES
    headers: Mapping[str, str] = {}


class TakenOver(Struct, frozen=True, gc=False):
    """Settings of a foreign request that a dialect takes from its residue.

    ``fields`` are their values by path in the target, ``places`` the source paths that they express in full.
    """

    fields: Mapping[str, Any] = {}
    places: frozenset[str] = frozenset()


NOTHING_TAKEN = TakenOver()


class Report(Struct):
    """Collects losses and repairs while a body is written.

    A place is the position of a canister in the source conversation, the path of a request field, or ``@`` and the
    name of a control. Places become source paths only when there is something to report. ``off`` are the repairs that
    are switched off, for writers that would make one of them. ``takes_reasoning`` is true if an endpoint accepts
    thoughts as text. ``request`` is the request being written; no alias may equal one of its function names.
    ``taken`` are the settings that the target takes from the residue of the source. ``is_bound`` if the text of a
    message depends on the other messages.
    """

    off: Collection[str] = ()
    request: Any = None
    takes_reasoning: bool = False
    # The paths at which the request's dialect keeps tool fields.
    tool_paths: Mapping[str, str] = {}
    taken_names: Collection[str] | None = None
    taken: TakenOver = NOTHING_TAKEN
    lost: list[Lost] = []
    repaired: list[Repaired] = []
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    freeform: set[str] = set()
    is_bound: bool = False
    own: Mapping[str, OwnCall] = {}
    # Headers that the server needs with the body.
    headers: Mapping[str, str] = {}
    # The places of tools and response canisters that differ from their position.
    tool_places: tuple[str, ...] = ()
    answer_places: tuple[int | None, ...] = ()

    def lose(self, code: str, place: Place, detail: str = "", within: str = "") -> None:
        """Record a loss; ``within`` is the path below the place."""
        self.lost.append((code, place, detail, within))

    def take(self, places: frozenset[str]) -> None:
        """Record source fields that the target expresses elsewhere."""
        self.taken = TakenOver(self.taken.fields, self.taken.places | places)

    def tool_place(self, index: int) -> str:
        """The place of a tool of the request."""
        return self.tool_places[index] if self.tool_places else f"tools[{index}]"

    def place_citations(self, place: Place) -> None:
        """Set the place of citations, for a source that keeps them beside its texts."""
        self.lost = [
            (code, place if code in _ABOUT_CITATIONS else told_of, detail, within)
            for code, told_of, detail, within in self.lost
        ]

    def repair(self, name: str, place: Place, detail: str = "") -> None:
        """Record a repair."""
        self.repaired.append((name, place, detail))

    def between(self, start: int, end: int) -> tuple[Lost, ...]:
        """The losses at the places of some canisters."""
        return tuple(each for each in self.lost if type(each[1]) is int and start <= each[1] < end)

    def losses(self, locate: Locate) -> tuple[Loss, ...]:
        """The losses without duplicates, with paths."""
        found: list[Loss] = []
        lost = _ordered(self.lost) if len(self.lost) > 1 else self.lost
        for code, place, detail, within in lost:
            severity, usual = CODES[code]
            path = "$"
            if place is not None:
                if within in _OF_FILES or place == _THINKING:
                    place, within = self._found(place, within)  # noqa: PLW2901 - as the source has it
                path = _path(place, within, locate)
            found.append(Loss(code, severity, path, detail or usual))
        # Most losses have a path of their own.
        if len(found) > 1 and len({*map(_path_of, found)}) < len(found):
            found = [*dict.fromkeys(found)]
        return (*found,)

    def _found(self, place: int | str, within: str) -> tuple[int | str, str]:
        """A place as a source path, and the path below it.

        A result holds its parts together, so the facts of a file inside it have no path. The source may have only one
        part of the thinking setting, at another path than the switch.
        """
        request = self.request
        if within in _OF_FILES and request is not None and type(place) is int:
            is_result = request.conversation[place].role is Role.Result
            return place, "" if is_result else within
        if place == _THINKING and request is not None and request.controls.thinking is not absent:
            thinking = request.controls.thinking
            given = [name for name in _PARTS if getattr(thinking, name) is not absent]
            is_part = len(given) == 1 and thinking.enabled is absent
            return f"@{given[0]}" if is_part else place, within
        return place, within

    def repairs(self, locate: Locate) -> tuple[Repair, ...]:
        """The repairs without duplicates, with paths."""
        repaired = _ordered(self.repaired)
        found = [
            Repair(
                name, "$" if place is None else _path(place, "", locate), detail or REPAIRS[name]
            )
            for name, place, detail in repaired
        ]
        return (*dict.fromkeys(found),)

    @property
    def aliases(self) -> Aliases:
        """The names and ids that were rewritten so that the target accepts them."""
        if not (self.names or self.ids or self.freeform or self.own):
            return NO_ALIASES
        return Aliases(self.names, self.ids, frozenset(self.freeform), self.own)


def _ordered(notes: list[Any]) -> list[Any]:
    """Losses of settings before losses of messages; messages in their order."""
    return sorted(notes, key=_position)


def _position(note: Lost | Repaired) -> int:
    place = note[1]
    return place if type(place) is int else -1


def enforce(policy: str, source: str | None, target: str, losses: tuple[Loss, ...]) -> None:
    """Raise LossError for losses that a policy forbids: strict any loss, warn a blocked one, allow none."""
    if policy == "allow":
        return
    forbidden = (LOST, BLOCKED) if policy == "strict" else (BLOCKED,)
    for loss in losses:
        if loss.severity in forbidden:
            serious = [loss for loss in losses if loss.severity in forbidden]
            raise LossError(source, target, serious)


def real_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """The losses that remove meaning; the others are notes."""
    return tuple(loss for loss in losses if loss.severity != INFO)


def _path(place: int | str, within: str, locate: Locate) -> str:
    if type(place) is int and not within:
        return locate(place) or "$"
    if place == "":
        # A field of the body.
        return within.removeprefix(".") or "$"
    if within:
        if within[:2] == _WHOLE:
            return within.removeprefix(_WHOLE)
        if within[:1] == ENVELOPE:
            return locate(place, True) + within[1:]
    path = locate(place)
    # Tools inside one string have no paths of their own.
    return path if path == "tools" else (path + within).removeprefix(".") or "$"
