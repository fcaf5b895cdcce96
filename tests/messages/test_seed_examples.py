"""The examples of the seed document, as it prints them."""

import datetime as dt
import sys
import types

import pytest

import cannery
from cannery.errors import ContentNotFoundError

EXAMPLE_1 = """
from . import __

conversation = [
    UserCanisterClass(
        content = TextualContentClass( text = "What is 2 + 2?" ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    AssistantCanisterClass(
        content = TextualContentClass( text = "2 + 2 equals 4." ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
]
"""

EXAMPLE_2 = """
from . import __

conversation = [
    UserCanisterClass(
        content = ImageContentClass(
            data = image_bytes,
            mime_type = "image/png",
            content_id = "sha256:abc123...",
        ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    UserCanisterClass(
        content = TextualContentClass( text = "Describe this image." ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    AssistantCanisterClass(
        content = TextualContentClass(
            text = "The image shows a sunset over mountains.",
        ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
]
"""

EXAMPLE_3 = """
from . import __

conversation = [
    UserCanisterClass(
        content = TextualContentClass( text = "What's the weather in SF?" ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    AssistantCanisterClass(
        content = __.absent,  # No text content
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    InvocationCanisterClass(
        identifier = "call_123",
        name = "get_weather",
        arguments = __.immut.Dictionary( { 'location': 'San Francisco, CA' } ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    ResultCanisterClass(
        invocation_id = "call_123",
        content = TextualContentClass(
            text = '{"temp": 62, "conditions": "Partly cloudy"}',
        ),
        error = __.absent,
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
    AssistantCanisterClass(
        content = TextualContentClass(
            text = "The weather in San Francisco is 62°F and partly cloudy.",
        ),
        timestamp = __.datetime.datetime.now( __.datetime.UTC ),
    ),
]
"""

STORAGE = """
inline = TextualContentClass(
    text = "What is the weather?",
    mime_type = "text/plain",
)
by_hash = TextualContentClass(
    text = "",  # Not stored inline
    mime_type = "text/plain",
    content_id = "sha256:a1b2c3d4...",
)
"""

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(monkeypatch):
    """Run an example inside a package that has the seed's ``__`` module."""
    package = types.ModuleType("seed")
    package.__path__ = []
    inner = types.ModuleType("seed.__")
    inner.__dict__.update(
        datetime=dt,
        absent=cannery.absent,
        immut=types.SimpleNamespace(Dictionary=cannery.Dictionary),
    )
    package.__dict__["__"] = inner
    monkeypatch.setitem(sys.modules, "seed", package)
    monkeypatch.setitem(sys.modules, "seed.__", inner)

    def run(source, **given):
        names = {name: getattr(cannery, name) for name in dir(cannery) if name[0].isupper()}
        names |= {"__package__": "seed", **given}
        exec(source, names)  # noqa: S102 - the seed's own text
        return names

    return run


def test_simple_text_conversation(run):
    asked, answered = run(EXAMPLE_1)["conversation"]

    assert asked.role is cannery.Role.User
    assert asked.content.text == "What is 2 + 2?"
    assert answered.role.value == "assistant"
    assert answered.content.mime_type == "text/plain"


def test_multimodal_conversation(run):
    image, question, _ = run(EXAMPLE_2, image_bytes=PNG)["conversation"]

    assert image.content.data == PNG
    assert image.content.content_id == cannery.content_id_of(PNG)
    assert question.content.text == "Describe this image."


@pytest.mark.parametrize("plain", [False, True])
def test_tool_invocation(run, plain):
    source = EXAMPLE_3.replace("__.immut.Dictionary", "dict") if plain else EXAMPLE_3
    conversation = run(source)["conversation"]
    _, silent, call, answer, _ = conversation

    assert silent.content is cannery.absent
    assert call.arguments == {"location": "San Francisco, CA"}
    assert call.arguments_text == '{"location":"San Francisco, CA"}'
    assert answer.error is cannery.absent
    assert [len(turn) for turn in cannery.Conversation(conversation).turns()] == [1, 2, 1, 1]


def test_storage_forms(run):
    names = run(STORAGE)

    assert names["inline"].text == "What is the weather?"
    assert not names["by_hash"].is_hydrated
    with pytest.raises(ContentNotFoundError, match=r"sha256:a1b2c3d4\.\.\. is not loaded"):
        _ = names["by_hash"].text


@pytest.mark.parametrize(
    "role, canister",
    [
        ("user", cannery.user("x")),
        ("assistant", cannery.assistant("x")),
        ("supervisor", cannery.supervisor("x")),
        ("document", cannery.document("x")),
        ("invocation", cannery.invocation("1", "x")),
        ("result", cannery.result("1", "x")),
    ],
)
def test_each_role_has_one_kind_of_canister(role, canister):
    protocols = {
        name: getattr(cannery, f"{name.capitalize()}Canister")
        for name in ("user", "assistant", "supervisor", "document", "invocation", "result")
    }

    assert canister.role is cannery.Role(role)
    assert [name for name, kind in protocols.items() if isinstance(canister, kind)] == [role]
    assert isinstance(canister, cannery.Canister)


@pytest.mark.parametrize(
    "name, content",
    [
        ("TextualContent", cannery.TextualContentClass("", content_id="sha256:" + "0" * 64)),
        ("ImageContent", cannery.ImageContentClass(None, "image/png", "sha256:" + "0" * 64)),
        ("AudioContent", cannery.AudioContentClass(b"", "audio/wav")),
        ("VideoContent", cannery.VideoContentClass(b"", "video/mp4")),
    ],
)
def test_protocols_tell_contents_apart_without_loading_them(name, content):
    names = ("TextualContent", "ImageContent", "AudioContent", "VideoContent")

    assert [kind for kind in names if isinstance(content, getattr(cannery, kind))] == [name]
    assert isinstance(content, cannery.Content)


def test_protocols_recognise_other_implementations():
    class Said:
        role = cannery.Role.User
        timestamp = dt.datetime.now(dt.UTC)
        content = cannery.TextualContentClass("x")

    class Picture:
        data = b""
        mime_type = "image/png"
        content_id = cannery.absent

    assert isinstance(Said(), cannery.UserCanister)
    assert not isinstance(Said(), cannery.AssistantCanister)
    assert isinstance(Picture(), cannery.ImageContent)
    assert not isinstance(Picture(), cannery.AudioContent)
    assert not isinstance(object(), cannery.Canister)
