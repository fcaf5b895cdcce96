"""Bad input is refused where it is made, with an error that says what and where."""

# mypy: disable-error-code="arg-type, call-arg, dict-item, list-item"

import datetime as dt
import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery import (
    AssistantCanisterClass,
    AudioContentClass,
    Base64,
    Citation,
    DataContentClass,
    DocumentCanisterClass,
    FileContentClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    OpaqueContentClass,
    Origin,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    Residue,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    VideoContentClass,
)
from cannery.errors import ContentNotFoundError, MessageError

NAIVE = dt.datetime(2025, 1, 1)  # noqa: DTZ001 - that is the point
TEXT = TextualContentClass("x")
LONE = "a\ud800"
OTHER_ID = "sha256:" + "0" * 64
ORIGIN = Origin("somewhere")


def nested(depth):
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


# What is tried, the place that the error names, and some words of the problem.
REFUSED = {
    "naive timestamp": (lambda: UserCanisterClass(TEXT, NAIVE), "UserCanister.timestamp", "naive"),
    "text timestamp": (
        lambda: UserCanisterClass(TEXT, "2025-01-01T00:00:00Z"),
        "UserCanister.timestamp",
        "expected a datetime, got str",
    ),
    "naive in replace": (
        lambda: cannery.user("x").replace(timestamp=NAIVE),
        "UserCanister.timestamp",
        "naive",
    ),
    "string as content": (
        lambda: UserCanisterClass("Hi"),
        "UserCanister.content",
        "TextualContentClass",
    ),
    "None as content": (
        lambda: AssistantCanisterClass(None),
        "AssistantCanister.content",
        "say absent",
    ),
    "list as content": (lambda: cannery.user(["a"]), "UserCanister.content", "got list"),
    "absent as content": (
        lambda: cannery.user(cannery.absent),
        "UserCanister.content",
        "expected a content",
    ),
    "joined": (lambda: UserCanisterClass(TEXT, joined=1), "UserCanister.joined", "True or False"),
    "residue": (lambda: UserCanisterClass(TEXT, residue={}), "UserCanister.residue", "Residue"),
    "residue inside": (
        lambda: UserCanisterClass(TEXT, residue=Residue("d", part=[])),
        "UserCanister.residue.part",
        "text",
    ),
    "rank": (
        lambda: SupervisorCanisterClass(TEXT, rank=["root"]),
        "SupervisorCanister.rank",
        "system or developer",
    ),
    "empty title": (
        lambda: DocumentCanisterClass(TEXT, title=" "),
        "DocumentCanister.title",
        "empty",
    ),
    "empty name": (
        lambda: InvocationCanisterClass("1", ""),
        "InvocationCanister.name",
        "empty",
    ),
    "empty identifier": (
        lambda: InvocationCanisterClass(" ", "f"),
        "InvocationCanister.identifier",
        "empty",
    ),
    "empty invocation_id": (
        lambda: ResultCanisterClass("", TEXT),
        "ResultCanister.invocation_id",
        "empty",
    ),
    "empty error": (lambda: ResultCanisterClass("1", TEXT, ""), "ResultCanister.error", "empty"),
    "error None": (lambda: ResultCanisterClass("1", TEXT, None), "ResultCanister.error", "text"),
    "is_freeform": (
        lambda: InvocationCanisterClass("1", "f", is_freeform="yes"),
        "InvocationCanister.is_freeform",
        "True or False",
    ),
    "arguments None": (
        lambda: InvocationCanisterClass("1", "f", None),
        "InvocationCanister.arguments",
        "expected text",
    ),
    "arguments with NaN": (
        lambda: InvocationCanisterClass("1", "f", {"a": [1, {"b": float("nan")}]}),
        "InvocationCanister.arguments.a[1].b",
        "nan is not a JSON number",
    ),
    "arguments with infinity": (
        lambda: InvocationCanisterClass("1", "f", {"x y": float("-inf")}),
        "InvocationCanister.arguments['x y']",
        "-inf is not a JSON number",
    ),
    "arguments with a set": (
        lambda: InvocationCanisterClass("1", "f", {"a": {1}}),
        "InvocationCanister.arguments.a",
        "set is not a JSON value",
    ),
    "arguments with a number as key": (
        lambda: InvocationCanisterClass("1", "f", {1: 2}),
        "InvocationCanister.arguments",
        "key must be text (str), got int",
    ),
    "arguments too deep": (
        lambda: InvocationCanisterClass("1", "f", nested(5000)),
        "InvocationCanister.arguments",
        "more than 128 levels deep",
    ),
    "arguments within arguments too deep": (
        lambda: cannery.Dictionary(
            a=cannery.Dictionary(nested(100)), b=cannery.Dictionary(a=nested(127))
        ),
        "Dictionary",
        "more than 128 levels deep",
    ),
    "data too deep": (
        lambda: DataContentClass(json="[" * 200 + "]" * 200),
        "DataContent.json",
        "more than 128 levels deep",
    ),
    "data with NaN": (lambda: DataContentClass([float("nan")]), "DataContent.value[0]", "nan"),
    "data with a date": (lambda: DataContentClass(NAIVE), "DataContent.value", "datetime"),
    "data that is not JSON": (lambda: DataContentClass(json="{"), "DataContent.json", "not JSON"),
    "data of NaN text": (lambda: DataContentClass(json="NaN"), "DataContent.json", "not JSON"),
    "opaque that is not JSON": (
        lambda: OpaqueContentClass("d", "t", "{"),
        "OpaqueContent.json",
        "not JSON",
    ),
    "opaque without dialect": (
        lambda: OpaqueContentClass("", "t", "{}"),
        "OpaqueContent.dialect",
        "empty",
    ),
    "text of bytes": (lambda: TextualContentClass(b"x"), "TextualContent.text", "got bytes"),
    "text with wrong id": (
        lambda: TextualContentClass("x", content_id=OTHER_ID),
        "TextualContent.content_id",
        "does not match the data",
    ),
    "malformed id": (
        lambda: TextualContentClass("x", content_id="../../etc/passwd"),
        "TextualContent.content_id",
        "64 lower-case hex digits",
    ),
    "text as image type": (
        lambda: TextualContentClass("x", "image/png"),
        "TextualContent.mime_type",
        "contradicts the class: expected text",
    ),
    "citation": (
        lambda: TextualContentClass("x", citations=["c"]),
        "TextualContent.citations[0]",
        "expected Citation, got str",
    ),
    "citation inside": (
        lambda: TextualContentClass("x", citations=[Citation("d", "{}", start="1")]),
        "TextualContent.citations[0].start",
        "expected int, got str",
    ),
    "citation alone": (
        lambda: TextualContentClass("x", citations=Citation("d", "{}")),
        "TextualContent.citations",
        "several",
    ),
    "image with wrong id": (
        lambda: ImageContentClass(b"x", "image/png", OTHER_ID),
        "ImageContent.content_id",
        "does not match the data",
    ),
    "image with wrong id of base64": (
        lambda: ImageContentClass(Base64("eA=="), "image/png", OTHER_ID),
        "ImageContent.content_id",
        "does not match the data",
    ),
    "image of nothing": (ImageContentClass, "ImageContent.data", "nothing given"),
    "image of text": (
        lambda: ImageContentClass("x", "image/png"),
        "ImageContent.data",
        "expected bytes, got str",
    ),
    "image without type": (lambda: ImageContentClass(b"x"), "ImageContent.mime_type", "not a MIME"),
    "image as audio type": (
        lambda: ImageContentClass(b"x", "audio/wav"),
        "ImageContent.mime_type",
        "expected image",
    ),
    "audio as video type": (
        lambda: AudioContentClass(b"x", "video/mp4"),
        "AudioContent.mime_type",
        "expected audio",
    ),
    "video with a broken type": (
        lambda: VideoContentClass(b"x", "video/ mp4"),
        "VideoContent.mime_type",
        "not a MIME type",
    ),
    "type with a line break": (
        lambda: ImageContentClass(b"x", "image/png\r\nX: y"),
        "ImageContent.mime_type",
        "not a MIME type",
    ),
    "image that is not base64": (
        lambda: ImageContentClass(Base64("!"), "image/png"),
        "ImageContent.data",
        "not base64",
    ),
    "image of base64 of a number": (
        lambda: ImageContentClass(Base64(5), "image/png"),
        "ImageContent.data",
        "not base64",
    ),
    "image of base64 of other bytes": (
        lambda: ImageContentClass(Base64(b"\xff"), "image/png"),
        "ImageContent.data",
        "not base64",
    ),
    "data and location": (
        lambda: ImageContentClass(b"x", "image/png", location="https://example.com"),
        "ImageContent.location",
        "not both",
    ),
    "id of a location": (
        lambda: ImageContentClass(location="https://example.com", content_id=OTHER_ID),
        "ImageContent.content_id",
        "cannot be checked",
    ),
    "empty location": (
        lambda: ImageContentClass(location=""),
        "Location.value",
        "empty",
    ),
    "kind of location": (lambda: Location(["url"], "x"), "Location.kind", "must be 'url' or"),
    "chunks": (
        lambda: FileContentClass(chunks=["x"]),
        "FileContent.chunks[0]",
        "str is not a single content",
    ),
    "file name": (
        lambda: FileContentClass(b"x", "application/pdf", name=5),
        "FileContent.name",
        "text",
    ),
    "citable": (
        lambda: FileContentClass(b"x", "application/pdf", citable="no"),
        "FileContent.citable",
        "True or False",
    ),
    "parts in parts": (
        lambda: PartsContentClass([TEXT, PartsContentClass([])]),
        "PartsContent.parts[1]",
        "PartsContentClass is not a single content",
    ),
    "parts of one text": (lambda: PartsContentClass("x"), "PartsContent.parts", "several values"),
    "signature without origin": (
        lambda: ReasoningContentClass("t", signature="s"),
        "ReasoningContent.origin",
        "needs the origin",
    ),
    "origin": (
        lambda: ReasoningContentClass("t", origin="openai"),
        "ReasoningContent.origin",
        "expected Origin",
    ),
    "origin inside": (
        lambda: ReasoningContentClass("t", origin=Origin(None)),
        "ReasoningContent.origin.dialect",
        "text",
    ),
    "reasoning of numbers": (
        lambda: ReasoningContentClass([1]),
        "ReasoningContent.text[0]",
        "text",
    ),
    "conversation of text": (lambda: cannery.Conversation("Hi"), "Conversation", "several values"),
    "conversation of dicts": (
        lambda: cannery.Conversation([cannery.user("x"), {"role": "user"}]),
        "Conversation[1]",
        "expected a canister, got dict",
    ),
    "conversation of a number": (lambda: cannery.Conversation(5), "Conversation", "several values"),
    "appending text": (
        lambda: cannery.Conversation().append("x"),
        "Conversation[0]",
        "expected a canister",
    ),
    "dictionary of a number": (lambda: cannery.Dictionary(5), "Dictionary", "mapping or pairs"),
    "array of text": (lambda: cannery.Array("ab"), "Array", "several values"),
    "array of sets": (lambda: cannery.Array([1, [set()]]), "Array[1][0]", "set is not a JSON"),
}

LONE_SURROGATES = {
    "text": (lambda: TextualContentClass(LONE), "TextualContent.text"),
    "builder": (lambda: cannery.user(LONE), "TextualContent.text"),
    "refusal": (lambda: RefusalContentClass(LONE), "RefusalContent.text"),
    "name": (lambda: cannery.invocation("1", LONE), "InvocationCanister.name"),
    "identifier": (lambda: cannery.invocation(LONE, "f"), "InvocationCanister.identifier"),
    "argument text": (lambda: cannery.invocation("1", "f", LONE), "InvocationCanister.arguments"),
    "argument": (
        lambda: cannery.invocation("1", "f", {"a": [LONE]}),
        "InvocationCanister.arguments.a[0]",
    ),
    "argument key": (
        lambda: cannery.invocation("1", "f", {LONE: 1}),
        "InvocationCanister.arguments['a\\ud800']",
    ),
    "invocation_id": (lambda: cannery.result(LONE, "x"), "ResultCanister.invocation_id"),
    "error": (lambda: cannery.result("1", "x", LONE), "ResultCanister.error"),
    "title": (lambda: cannery.document("x", LONE), "DocumentCanister.title"),
    "signature": (
        lambda: ReasoningContentClass("t", signature=LONE, origin=ORIGIN),
        "ReasoningContent.signature",
    ),
    "encrypted": (
        lambda: ReasoningContentClass("t", encrypted=LONE, origin=ORIGIN),
        "ReasoningContent.encrypted",
    ),
    "thought": (lambda: ReasoningContentClass(LONE), "ReasoningContent.text"),
    "summary": (lambda: ReasoningContentClass("t", ["s", LONE]), "ReasoningContent.summary[1]"),
    "origin": (
        lambda: ReasoningContentClass("t", origin=Origin(LONE)),
        "ReasoningContent.origin.dialect",
    ),
    "location": (lambda: Location("url", LONE), "Location.value"),
    "file name": (
        lambda: FileContentClass(b"x", "application/pdf", name=LONE),
        "FileContent.name",
    ),
    "context": (
        lambda: FileContentClass(b"x", "application/pdf", context=LONE),
        "FileContent.context",
    ),
    "citation": (
        lambda: TextualContentClass("x", citations=[Citation("d", "{}", url=LONE)]),
        "TextualContent.citations[0].url",
    ),
    "data": (lambda: DataContentClass({"a": LONE}), "DataContent.value.a"),
    "data text": (lambda: DataContentClass(json=f'"{LONE}"'), "DataContent.json"),
    "mime type": (lambda: TextualContentClass("x", f"text/{LONE}"), "TextualContent.mime_type"),
    "residue": (
        lambda: UserCanisterClass(TEXT, residue=Residue("d", part=LONE)),
        "UserCanister.residue.part",
    ),
    "dictionary": (lambda: cannery.Dictionary(a=LONE), "Dictionary.a"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_value_is_refused(name):
    make, where, problem = REFUSED[name]

    with pytest.raises(MessageError) as caught:
        make()
    assert caught.value.where == where
    assert problem in caught.value.problem
    assert str(caught.value) == f"{where}: {caught.value.problem}"
    assert isinstance(caught.value, ValueError)
    assert caught.value.status_hint == 400


@pytest.mark.parametrize("name", LONE_SURROGATES)
def test_lone_surrogate_is_refused(name):
    make, where = LONE_SURROGATES[name]

    with pytest.raises(MessageError, match="lone surrogate U\\+D800") as caught:
        make()
    assert caught.value.where == where


@pytest.mark.parametrize(
    "make, text",
    [
        (UserCanisterClass, "UserCanisterClass() missing 1 required positional argument"),
        (lambda: UserCanisterClass(TEXT, color="red"), "UserCanisterClass() got an unexpected"),
        (lambda: ImageContentClass(b"x", format="png"), "ImageContentClass() got an unexpected"),
        (lambda: cannery.user("x").replace(color="red"), "UserCanisterClass() got an unexpected"),
    ],
)
def test_wrong_argument_list_is_a_type_error_in_the_name_of_the_class(make, text):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(text)


WRONG = st.sampled_from(
    [None, 5, 1.5, True, b"x", "", "x", [], {}, {1}, object(), cannery.absent, LONE, nested(200)]
)
MAKERS = [
    (UserCanisterClass, ("content", "timestamp", "joined", "residue")),
    (AssistantCanisterClass, ("content", "timestamp", "joined", "residue")),
    (SupervisorCanisterClass, ("content", "rank")),
    (DocumentCanisterClass, ("content", "title")),
    (InvocationCanisterClass, ("identifier", "name", "arguments", "is_freeform")),
    (ResultCanisterClass, ("invocation_id", "content", "error")),
    (TextualContentClass, ("text", "mime_type", "content_id", "citations")),
    (ImageContentClass, ("data", "mime_type", "content_id", "location")),
    (FileContentClass, ("data", "mime_type", "name", "context", "citable", "chunks")),
    (ReasoningContentClass, ("text", "summary", "signature", "encrypted", "origin")),
    (RefusalContentClass, ("text",)),
    (DataContentClass, ("value", "json")),
    (OpaqueContentClass, ("dialect", "tag", "json")),
    (PartsContentClass, ("parts",)),
    (Location, ("kind", "value")),
    (cannery.Tool, ("name", "description", "schema", "strict", "grammar", "hosted", "residue")),
    (cannery.ToolChoice, ("mode", "names", "must_call")),
    (cannery.OutputFormat, ("kind", "schema", "name", "strict")),
    (cannery.Thinking, ("enabled", "effort", "budget", "summary", "adaptive")),
    (cannery.Controls, ("max_tokens", "temperature", "stop", "output", "thinking", "metadata")),
    (cannery.Request, ("conversation", "model", "tools", "tool_choice", "controls", "stream")),
    (cannery.Usage, ("input", "output", "cache_read")),
    (cannery.Response, ("canisters", "finish", "usage", "model", "identifier")),
]


@given(st.sampled_from(MAKERS), st.data())
def test_wrong_types_never_raise_anything_else(maker, data):
    cls, names = maker
    values = {name: data.draw(WRONG, label=name) for name in names}

    try:
        made = cls(**values)
    except MessageError:
        return
    hash(made)
    repr(made)


def test_str_enums_become_plain_text():
    class Tools(str, enum.Enum):  # noqa: UP042 - the kind whose str() is not its value
        Search = "search"

    call = cannery.invocation(Tools.Search, Tools.Search, {"a": Tools.Search})

    assert type(call.identifier) is str
    assert call.name == "search"
    assert call.arguments_text == '{"a":"search"}'


def test_huge_integers_are_exact():
    call = cannery.invocation("1", "f", {"n": 2**200})

    assert call.arguments == {"n": 2**200}
    assert call.arguments_text == f'{{"n":{2**200}}}'


def test_booleans_are_not_numbers():
    assert cannery.invocation("1", "f", {"a": True}).arguments_text == '{"a":true}'
    one, true = (cannery.invocation("1", "f", {"a": value}) for value in (1, True))
    assert cannery.digest(one) != cannery.digest(true)


@pytest.mark.parametrize("text", ["", " ", "{", "[]", "null", '"x"', "{}x", "[" * 9999, "\x00"])
def test_any_argument_text_is_kept(text):
    call = cannery.invocation("1", "f", text)

    assert call.arguments_text == text
    assert call.arguments == {}
    assert call.is_object is (not text.strip())


def test_control_characters_survive():
    assert cannery.user("a\x00\x1b\x7f").text == "a\x00\x1b\x7f"


@pytest.mark.parametrize("error, is_error, text", [(True, True, "boom"), (False, False, None)])
def test_error_may_be_a_flag(error, is_error, text):
    answer = cannery.result("1", "boom", error)

    assert answer.is_error is is_error
    assert answer.error == (text or cannery.absent)


def test_replacing_what_was_said_drops_the_residue():
    residue = Residue("openai_chat", part="{}")
    said = UserCanisterClass(TEXT, residue=residue)

    assert said.replace(joined=True).residue == residue
    assert said.replace(content=TextualContentClass("y")).residue is None
    assert said.replace(content=TEXT, residue=residue).residue == residue


def test_an_empty_text_may_have_the_id_of_nothing():
    content = TextualContentClass("", content_id=cannery.content_id_of(b""))

    assert content.is_hydrated
    assert content.text == ""


def test_content_that_only_a_store_has():
    data = b"\x89PNG"
    image = ImageContentClass(b"", "image/png", cannery.content_id_of(data))

    assert not image.is_hydrated
    assert image.content_id == cannery.content_id_of(data)
    with pytest.raises(ContentNotFoundError, match="hydrate it"):
        _ = image.data
