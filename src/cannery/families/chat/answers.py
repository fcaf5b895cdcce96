"""Whole responses of the Chat Completions shape, both ways. Further choices stay in the residue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.families.chat.reading import ChatReader
from cannery.families.chat.shape import Shape
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass, text_of
from cannery.messages.content import Citation, TextualContentClass
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import Answers, answer_pieces, call_stem, refuse_error
from cannery.wire.bodies import Fields, Object, decode, fields_reader, is_named
from cannery.wire.citations import cited
from cannery.wire.contract import Piece
from cannery.wire.losses import Report
from cannery.wire.places import Path, Places
from cannery.wire.residues import nested, set_again, take_usual


def response_reader(shape: Shape) -> Callable[[bytes, Places], Response]:
    """The reader of a dialect's responses."""
    answers = shape.answers

    @fields_reader(shape.name)
    def read(fields: Fields, places: Places) -> Response:
        return _read_response(shape, answers, fields, places)

    return read


def _read_response(shape: Shape, answers: Answers, fields: Fields, places: Places) -> Response:
    body = {key: decode(field) for key, field in fields.items()}
    refuse_error(shape.name, body, "choices")
    reader = shape.reader(shape.name, places.canisters, body.get("model"))
    reader.call_stem = call_stem(body.get("id"))
    choices = reader.list(reader.field(body, "choices", ""), "choices")
    patches: Object = {}
    finish: Any = absent
    # A missing fact is reported at the place of the object that should hold it.
    if not choices:
        places.settings["finish"] = ("choices",)
    else:
        if type(choices[0]) is dict and "finish_reason" not in choices[0]:
            places.settings["finish"] = ("choices", 0)
        del body["choices"]
        finish, patch = _read_choice(shape, reader, choices[0])
        patches["choices"] = listed_choices(patch, choices[1:])
    return answers.read(body, reader.canisters, places, patches, finish=finish)


def listed_choices(first: Object | None, others: list[Any]) -> Object | None:
    """The patch of the list of choices: only the first is carried, the others are added."""
    patch: Object = {} if first is None else {"i": {"0": first}}
    if others:
        patch["a"] = {str(index): item for index, item in enumerate(others, 1)}
    return patch or None


def _read_choice(shape: Shape, reader: ChatReader, item: Any) -> tuple[Any, Object | None]:
    """Read the message of a choice; returns the finish reason, and the patch of the choice."""
    choice = reader.object(item, "choices[0]")
    path = ("choices", 0, "message")
    finish = shape.finishes.read(choice.get("finish_reason"))
    dropped: list[str] = []
    patch: Object | None = None
    if "message" not in choice and type(choice.get("messages")) is list:
        # Mistral tells of the tools that it ran in several messages, which stay as they are (mistralai 3.7.0).
        dropped.append("message")
        _read_several(reader, choice["messages"])
    elif "message" not in choice and finish is FinishReason.Filter:
        # Azure sends no message at all when its filter stopped the answer (API version 2024-02-01).
        dropped.append("message")
    else:
        given = reader.field(choice, "message", "choices[0]")
        message = reader.object(given, "choices[0].message")
        del choice["message"]
        patch = _read_message(reader, message, path)
    take_usual(choice, "index", 0, dropped)
    for key, usual in shape.beside.items():
        take_usual(choice, key, usual, dropped)
    take_usual(choice, "finish_reason", shape.finishes.word(finish), dropped)
    return finish, nested(choice, {"message": patch}, dropped)


def _read_several(reader: ChatReader, messages: list[Any]) -> None:
    """Read what the model says in several messages of one choice, without taking it.

    A call that a result among them answers was run by the server, and is nothing for the client to do.
    """
    results = results_among(messages)
    for index, message in enumerate(messages):
        if type(message) is dict and message.get("role") == "assistant":
            copy = decode_json(write_json({key: message[key] for key in message if key != "role"}))
            calls = copy.get("tool_calls")
            if results and type(calls) is list:
                copy["tool_calls"] = [call for call in calls if not was_run(call, results)] or None
                if calls and not (copy["tool_calls"] or copy.get("content")):
                    continue
            reader.assistant(copy, "assistant", ("choices", 0, "messages", index))


def results_among(messages: list[Any]) -> dict[str, Object]:
    """The results among several messages of one choice, by the ids of their calls."""
    results = (each for each in messages if type(each) is dict and each.get("role") == "tool")
    return {each["tool_call_id"]: each for each in results if type(each.get("tool_call_id")) is str}


def was_run(call: Any, results: dict[str, Object]) -> bool:
    """Whether the server ran a call itself: its result is already there."""
    return type(call) is dict and type(call.get("id")) is str and call["id"] in results


def _read_message(reader: ChatReader, message: Object, path: Path) -> Object | None:
    """Read a message; response-only fields that a server would refuse in a request are kept by the response."""
    dropped: list[str] = []
    apart: Object = {}
    audio_patch = None
    take_usual(message, "role", "assistant", dropped)
    if "role" in message:
        apart["role"] = message.pop("role")
    annotations = message.pop("annotations", absent)
    if annotations is not absent:
        apart["annotations"] = annotations
    audio = message.get("audio")
    if type(audio) is dict and is_named(audio.get("id")):
        message["audio"] = {"id": audio.pop("id")}
        audio_patch = set_again(audio)
    reader.assistant(message, "assistant", path)
    _cite(reader, annotations)
    return nested(apart, {"audio": audio_patch}, dropped)


def _cite(reader: ChatReader, annotations: Any) -> None:
    """Attach the annotations of a message to its text; the residue keeps their exact spelling."""
    if type(annotations) is not list or not annotations:
        return
    for index, canister in enumerate(reader.canisters):
        is_said = type(canister) is not InvocationCanisterClass and type(canister.held) is str
        if is_said and canister.held:
            citations = (read_citation(reader.dialect, item) for item in annotations)
            reader.canisters[index] = cited(canister, citations)
            return


def read_citation(dialect: str, item: Any) -> Citation:
    """An annotation; if it points to a page, in terms that every dialect understands."""
    inner = item.get("url_citation") if type(item) is dict else None
    if type(inner) is not dict or type(inner.get("url")) is not str:
        return Citation(dialect, write_json(item))
    start, end, title = (inner.get(key) for key in ("start_index", "end_index", "title"))
    return Citation(
        dialect,
        write_json(item),
        inner["url"],
        title if type(title) is str else None,
        None,
        start if type(start) is int else None,
        end if type(end) is int else None,
    )


def write_citation(dialect: str, citation: Citation, offset: int, length: int) -> Object:
    """A URL citation; one without a span covers all of its text, which starts at an offset."""
    if citation.dialect == dialect and not offset:
        return decode_json(citation.raw)  # type: ignore[no-any-return]
    start, end = citation.start, citation.end
    if start is None or end is None:
        start, end = 0, length
    inner = {
        "start_index": offset + start,
        "end_index": offset + end,
        "title": citation.title or "",
        "url": citation.url,
    }
    return {"type": "url_citation", "url_citation": inner}


def response_writer(shape: Shape) -> Callable[[Response, Report], Object]:
    """The writer of a dialect's responses."""
    answers = shape.answers

    def write(response: Response, report: Report) -> Object:
        is_same = response.source == shape.name
        writer = shape.writer(shape.name, report, is_same=is_same, for_answer=True)
        pieces = answer_pieces(response, shape.name, report)
        message = writer.assistant(pieces) if pieces else {"role": "assistant", "content": None}
        if not is_same:
            shape.complete(message, pieces)
        has_calls = not is_same and bool(message.get("tool_calls"))
        word = shape.finishes.word(response.finish, has_calls=has_calls)
        choice = {"index": 0, "message": message, **shape.beside, "finish_reason": word}
        return answers.write(response, report, {"choices": [choice]})

    return write


def answer_annotations(dialect: str, pieces: list[Piece]) -> Iterator[Object]:
    """The citations of all texts, which the message joins to one."""
    offset = 0
    for piece in pieces:
        canister = piece.canister
        held = canister.held
        if type(canister) is InvocationCanisterClass:
            continue
        if isinstance(held, TextualContentClass):
            for citation in held.citations:
                if citation.url is not None:
                    yield write_citation(dialect, citation, offset, len(held.text))
        offset += len(text_of(held))
