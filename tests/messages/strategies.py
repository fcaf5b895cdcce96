"""Hypothesis strategies that draw values of the model, some with a plain description beside them."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

import cannery

NAMES = st.sampled_from(["search", "get_weather", "läuft", "a-b", "read file"])
IDENTIFIERS = st.text("abc123_-", min_size=1, max_size=6)
TEXTS = st.text(max_size=20)
WORDS = st.text(min_size=1, max_size=20).filter(str.strip)
BYTES = st.binary(max_size=40)

TIMESTAMPS = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001 - the same
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.integers(-1000, 1000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e22, 1e-7, -0.0, 2.0**53, 2.0**53 - 1, 5e-324, 1.7976931348623157e308]),
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)


@st.composite
def spelled_json(draw, value):
    """One of the ways to write a JSON value down."""
    return json.dumps(
        shuffled(draw, value),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " :\t")])),
    )


def shuffled(draw, value):
    """The value with its keys in another order, and small whole numbers perhaps as floats."""
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: shuffled(draw, value[key]) for key in keys}
    if isinstance(value, list):
        return [shuffled(draw, item) for item in value]
    if type(value) is int and abs(value) < 2**53 and draw(st.booleans()):
        return float(value)
    return value


@st.composite
def spelled_base64(draw, data):
    """One of the ways to write bytes as base64."""
    encode = draw(st.sampled_from([base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes]))
    text = encode(data).decode()
    if draw(st.booleans()):
        text = text.rstrip("=\n")
    if draw(st.booleans()):
        text = "\r\n ".join(text[start : start + 3] for start in range(0, len(text), 3))
    return text


JSON_TEXTS = JSON_VALUES.flatmap(spelled_json)
ARGUMENT_TEXTS = st.one_of(
    JSON_OBJECTS.flatmap(spelled_json),
    JSON_TEXTS,
    TEXTS,
    st.sampled_from(
        [
            "",
            " \n",
            "{",
            '{"a":1e400}',
            '{"a":NaN}',
            '{"a":"\\ud800"}',
            '{"a":"\\ud83d\\ude00"}',
            '{"a":1,"a":2}',
            "\ufeff{}",
            "[" * 128 + "]" * 128,
            "[" * 129 + "]" * 129,
            "[" * 5000,
            "1" * 4300,
            "1" * 4301,
        ]
    ),
)

RESIDUES = st.none() | st.builds(
    cannery.Residue, st.just("openai_chat"), st.none() | st.just('{"s":{"x":1}}')
)
CITATIONS = st.builds(cannery.Citation, st.just("d"), st.just("{}"), url=st.none() | TEXTS)


# --- contents, each with its description for the reference -----------------------------------------


@st.composite
def texts_described(draw):
    text = draw(TEXTS | JSON_TEXTS)
    mime = draw(st.sampled_from(["text/plain", "text/plain; charset=utf-8", "Text/Markdown"]))
    if draw(st.booleans()):
        content_id = cannery.content_id_of(text.encode())
        content = cannery.TextualContentClass("", mime, content_id)
        if text:
            return content, {"kind": "text", "id": content_id, "mime": mime}
        return content, {"kind": "text", "text": text, "mime": mime}
    cited = draw(st.lists(CITATIONS, max_size=1))
    content = cannery.TextualContentClass(text, mime, citations=cited)
    return content, {"kind": "text", "text": text, "mime": mime}


@st.composite
def payloads_described(draw):
    data = draw(BYTES)
    match draw(st.integers(0, 4)):
        case 0:
            return {"data": data}, {"bytes": data}
        case 1:
            text = draw(spelled_base64(data))
            return {"data": cannery.Base64(text)}, {"base64": text}
        case 2:
            content_id = cannery.content_id_of(data)
            payload = {"bytes": data} if not data else {"id": content_id}
            return {"data": b"", "content_id": content_id}, payload
        case 3:
            return {"data": None, "content_id": "sha256:ab12..."}, {"id": "sha256:ab12..."}
        case _:
            kind, value = draw(st.sampled_from(["url", "file"])), draw(WORDS)
            return {"location": cannery.Location(kind, value)}, {kind: value}


@st.composite
def media_described(draw):
    kind, cls = draw(
        st.sampled_from(
            [
                ("image", cannery.ImageContentClass),
                ("audio", cannery.AudioContentClass),
                ("video", cannery.VideoContentClass),
            ]
        )
    )
    given, payload = draw(payloads_described())
    return cls(mime_type=f"{kind}/x", **given), {"kind": kind, "payload": payload}


@st.composite
def files_described(draw):
    context = draw(st.none() | TEXTS)
    if draw(st.booleans()):
        chunks = draw(st.lists(texts_described(), min_size=1, max_size=2))
        content = cannery.FileContentClass(chunks=[chunk for chunk, _ in chunks], context=context)
        plain = {"kind": "file", "chunks": [chunk for _, chunk in chunks], "context": context}
        return content, plain
    given, payload = draw(payloads_described())
    name = draw(st.none() | TEXTS)
    content = cannery.FileContentClass(
        mime_type="application/pdf", name=name, context=context, **given
    )
    return content, {"kind": "file", "payload": payload, "context": context}


@st.composite
def reasoning_described(draw):
    facts = {
        "texts": draw(st.lists(TEXTS, max_size=2)),
        "summaries": draw(st.lists(TEXTS, max_size=2)),
        "signature": draw(st.none() | TEXTS),
        "encrypted": draw(st.none() | TEXTS),
    }
    content = cannery.ReasoningContentClass(
        facts["texts"],
        facts["summaries"],
        facts["signature"],
        facts["encrypted"],
        cannery.Origin("somewhere", draw(st.none() | TEXTS)),
    )
    return content, {"kind": "reasoning", **facts}


@st.composite
def small_described(draw):
    match draw(st.integers(0, 2)):
        case 0:
            text = draw(TEXTS)
            return cannery.RefusalContentClass(text), {"kind": "refusal", "text": text}
        case 1:
            text = draw(JSON_TEXTS)
            return cannery.DataContentClass(json=text), {"kind": "data", "json": text}
        case _:
            text, dialect = draw(JSON_TEXTS), draw(WORDS)
            content = cannery.OpaqueContentClass(dialect, "tag", text)
            return content, {"kind": "opaque", "dialect": dialect, "json": text}


SINGLE_CONTENTS_DESCRIBED = (
    texts_described()
    | media_described()
    | files_described()
    | reasoning_described()
    | small_described()
)


@st.composite
def parts_described(draw):
    parts = draw(st.lists(SINGLE_CONTENTS_DESCRIBED, max_size=3))
    content = cannery.PartsContentClass([part for part, _ in parts])
    return content, {"kind": "parts", "parts": [part for _, part in parts]}


CONTENTS_DESCRIBED = SINGLE_CONTENTS_DESCRIBED | parts_described()
CONTENTS = CONTENTS_DESCRIBED.map(lambda pair: pair[0])


# --- canisters --------------------------------------------------------------------------------------


@st.composite
def canisters_described(draw):
    common = {
        "timestamp": draw(TIMESTAMPS),
        "joined": draw(st.booleans()),
        "residue": draw(RESIDUES),
    }
    role = draw(st.sampled_from(cannery.Role))
    if role is cannery.Role.Invocation:
        return draw(invocations_described(common))
    if role is cannery.Role.Assistant and draw(st.booleans()):
        return cannery.AssistantCanisterClass(**common), {"role": "assistant"}
    content, plain = draw(CONTENTS_DESCRIBED)
    described = {"role": role.value, "content": plain}
    match role:
        case cannery.Role.User:
            return cannery.UserCanisterClass(content, **common), described
        case cannery.Role.Assistant:
            return cannery.AssistantCanisterClass(content, **common), described
        case cannery.Role.Supervisor:
            rank = draw(st.sampled_from([cannery.absent, "system", "developer"]))
            return cannery.SupervisorCanisterClass(content, rank=rank, **common), described
        case cannery.Role.Document:
            title = draw(st.just(cannery.absent) | WORDS)
            described["title"] = title or ""
            return cannery.DocumentCanisterClass(content, title=title, **common), described
    answers = draw(IDENTIFIERS)
    error = draw(st.sampled_from([cannery.absent, True]) | WORDS)
    described |= {"answers": answers, "error": error or None}
    return cannery.ResultCanisterClass(answers, content, error, **common), described


@st.composite
def invocations_described(draw, common):
    identifier, name = draw(IDENTIFIERS), draw(NAMES)
    arguments, freeform = draw(ARGUMENT_TEXTS), draw(st.booleans())
    canister = cannery.InvocationCanisterClass(
        identifier, name, arguments, is_freeform=freeform, **common
    )
    return canister, {
        "role": "invocation",
        "id": identifier,
        "name": name,
        "arguments": arguments,
        "freeform": freeform,
    }


CANISTERS = canisters_described().map(lambda pair: pair[0])
CONVERSATIONS = st.lists(CANISTERS, max_size=3).map(cannery.Conversation)

# Small ones, for what depends on roles and marks only.
LIGHT_CANISTERS = st.builds(
    lambda make, joined: make().replace(joined=joined),
    st.sampled_from(
        [
            lambda: cannery.user("u"),
            lambda: cannery.assistant("a"),
            cannery.assistant,
            lambda: cannery.supervisor("s"),
            lambda: cannery.document("d"),
            lambda: cannery.invocation("1", "f"),
            lambda: cannery.result("1", "r"),
        ]
    ),
    st.booleans(),
)
LIGHT_CONVERSATIONS = st.lists(LIGHT_CANISTERS, max_size=8).map(cannery.Conversation)
