"""Digests that must never change, and a second implementation that agrees with the first."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.messages.json_text import canonical_text
from tests.messages import identity_reference as reference
from tests.messages.strategies import ARGUMENT_TEXTS, JSON_TEXTS, canisters_described

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(16))
PNG_ID = cannery.content_id_of(PNG)
LONG = "[" + "1," * 511 + "1]"
ORIGIN = cannery.Origin("anthropic_messages", "claude-sonnet-4-5")


def text(value, **facts):
    return {"kind": "text", "text": value, **facts}


# Name -> the canister, its description for the reference, its frozen digest.
VECTORS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "user text": (
        cannery.user("Hi"),
        {"role": "user", "content": text("Hi")},
        "677fb8ff404bdc279533d851760f6cac00a3fb067415627af74ace91ba29caf2",
    ),
    "user empty text": (
        cannery.user(""),
        {"role": "user", "content": text("")},
        "572bdc9e56a68c04580a9c5be54dc35c504833fbf63658049e02f0cb979deb73",
    ),
    "user markdown": (
        cannery.user(cannery.TextualContentClass("# Hi", "text/markdown; variant=GFM")),
        {"role": "user", "content": text("# Hi", mime="text/markdown")},
        "9293dc25f79b34f1143f0ebabea4be94d559c49a3aafb773857d6e6d401bb3a4",
    ),
    "user image": (
        cannery.user(cannery.ImageContentClass(PNG, "image/png")),
        {"role": "user", "content": {"kind": "image", "payload": {"bytes": PNG}}},
        "d64996b0357217670eb9272df36b2abf926d8d8268b75d61b9fbd850d8f9556c",
    ),
    "user image by id": (
        cannery.user(cannery.ImageContentClass(None, "image/png", PNG_ID)),
        {"role": "user", "content": {"kind": "image", "payload": {"id": PNG_ID}}},
        "d64996b0357217670eb9272df36b2abf926d8d8268b75d61b9fbd850d8f9556c",
    ),
    "user image elsewhere": (
        cannery.user(cannery.ImageContentClass(location="https://example.com/a.png")),
        {
            "role": "user",
            "content": {"kind": "image", "payload": {"url": "https://example.com/a.png"}},
        },
        "44c54d856804973713802845fb0a96caf75c604015fc45f510847e6110bedb41",
    ),
    "user audio": (
        cannery.user(cannery.AudioContentClass(b"RIFF", "audio/wav")),
        {"role": "user", "content": {"kind": "audio", "payload": {"bytes": b"RIFF"}}},
        "b7f572afb3ffeb46d4e4d27bec1c4754a77c9aa4030f8cb8db1a9d4fc8505b95",
    ),
    "user video": (
        cannery.user(cannery.VideoContentClass(cannery.Base64("AAEC_-8"), "video/mp4")),
        {"role": "user", "content": {"kind": "video", "payload": {"base64": "AAEC_-8"}}},
        "d7c38a74196db798dc94dacdb1c8f9ee490653997840f474a6968dfaf63e8790",
    ),
    "user file with context": (
        cannery.user(
            cannery.FileContentClass(
                b"%PDF-", "application/pdf", name="a.pdf", context="the contract"
            )
        ),
        {
            "role": "user",
            "content": {"kind": "file", "payload": {"bytes": b"%PDF-"}, "context": "the contract"},
        },
        "d487eec212306296e7b5a149bae2538b0d13ccf99de9f84de50b2b1b06645634",
    ),
    "user file of chunks": (
        cannery.user(
            cannery.FileContentClass(
                chunks=[cannery.TextualContentClass("a"), cannery.TextualContentClass("b")]
            )
        ),
        {"role": "user", "content": {"kind": "file", "chunks": [text("a"), text("b")]}},
        "39b738c01b8ed35fb3828d226afe6ea0f06edbc9fc4de45be6acb7bc14f67010",
    ),
    "user file of a provider": (
        cannery.user(cannery.FileContentClass(location=cannery.Location("file", "file-1"))),
        {"role": "user", "content": {"kind": "file", "payload": {"file": "file-1"}}},
        "72a4ecf89101221d714bc839c430db35de0b896a092255ac95e53f7d23034fb2",
    ),
    "assistant text": (
        cannery.assistant("2 + 2 equals 4. ✓"),
        {"role": "assistant", "content": text("2 + 2 equals 4. ✓")},
        "7aa0a141816fe8cabb4cbbd15de71e7fe13dd4b3aa0819e3b9f6f0216fb38f37",
    ),
    "assistant without words": (
        cannery.assistant(),
        {"role": "assistant"},
        "8c70387f39cd5127553f9d7a8a776d2b6d716a58d32e443907ee276a1615fdd5",
    ),
    "assistant reasoning": (
        cannery.assistant(
            cannery.ReasoningContentClass(
                "Let me think.", ["Thinking"], signature="c2ln", origin=ORIGIN
            )
        ),
        {
            "role": "assistant",
            "content": {
                "kind": "reasoning",
                "texts": ["Let me think."],
                "summaries": ["Thinking"],
                "signature": "c2ln",
            },
        },
        "fa9c0c4abb6cd100759c1a66eca4ecc480ee6fdbd52b9cb9e4fd4fe1f6d40fa0",
    ),
    "assistant encrypted reasoning": (
        cannery.assistant(cannery.ReasoningContentClass(encrypted="gAAAA", origin=ORIGIN)),
        {"role": "assistant", "content": {"kind": "reasoning", "encrypted": "gAAAA"}},
        "845a7e38351c6fa293f820930587cd3aab56a8f5a42fcaea749d3667abd0f9fc",
    ),
    "assistant refusal": (
        cannery.assistant(cannery.RefusalContentClass("I cannot help with that.")),
        {"role": "assistant", "content": {"kind": "refusal", "text": "I cannot help with that."}},
        "53707abac6a7dde010d36fd46270b248b45477aa1105ea143be27930a0adbd69",
    ),
    "assistant opaque": (
        cannery.assistant(
            cannery.OpaqueContentClass("anthropic_messages", "new_block", '{"type": "new_block"}')
        ),
        {
            "role": "assistant",
            "content": {
                "kind": "opaque",
                "dialect": "anthropic_messages",
                "json": '{"type":"new_block"}',
            },
        },
        "34ecc73f1760f8f2d496f08f1c437625d600b340ecd9ecdc18bc03fa91ffd828",
    ),
    "supervisor": (
        cannery.supervisor("Be brief.", rank="developer"),
        {"role": "supervisor", "content": text("Be brief.")},
        "3d0af1a129fd4bdce0c2e16313c292da963be26e8515bc7d0ab214b4f15b88f4",
    ),
    "document with title": (
        cannery.document("All is well.", "Report"),
        {"role": "document", "title": "Report", "content": text("All is well.")},
        "308330a900dde89550723071850b16cb586ffc0b5da7057424af87e5190f33c9",
    ),
    "document without title": (
        cannery.document("All is well."),
        {"role": "document", "content": text("All is well.")},
        "486faa59485518d66d266e10fd3a7363c3105e63a4381cfdd50c1f4b6846e4ea",
    ),
    "invocation": (
        cannery.invocation("call_123", "get_weather", {"location": "San Francisco, CA"}),
        {
            "role": "invocation",
            "name": "get_weather",
            "arguments": '{"location":"San Francisco, CA"}',
        },
        "c4ce63af1b808f0e7ed642c68f6bc5ef7db9c7eb98af8a63592da14d45933897",
    ),
    "invocation without arguments": (
        cannery.invocation("call_1", "now"),
        {"role": "invocation", "name": "now", "arguments": "{}"},
        "fc380eb483e41bc91db65003ded3a6092aa7af51a0f8dd033db97b3f4d1218fd",
    ),
    "invocation with numbers": (
        cannery.invocation(
            "call_1",
            "f",
            '{"z":[1.50,-0.0,1e22,1e-7,9007199254740993,123456789012345678901234567890],"a":"\\ud800"}',
        ),
        {
            "role": "invocation",
            "name": "f",
            "arguments": '{"a":"\ufffd","z":[1.5,0,1e22,1e-7,9007199254740993,'
            "123456789012345678901234567890]}",
        },
        "77778209c39213f52b5557830adebc06e95f7079ba6f6edcfb829b884772d76c",
    ),
    "invocation that is not JSON": (
        cannery.invocation("call_1", "f", '{"a":1e400}'),
        {"role": "invocation", "name": "f", "arguments": '{"a":1e400}'},
        "9316a9f12df5599e83b10f29c0e303defa6a25d491146646a1113e2d537072ad",
    ),
    "invocation free-form": (
        cannery.invocation("call_1", "patch", "{}", is_freeform=True),
        {"role": "invocation", "name": "patch", "arguments": "{}", "freeform": True},
        "8b1ed4dc01334998921b6473008267f9e62d14ca9a43cb71bb7bff688ab3d7af",
    ),
    "result text": (
        cannery.result("call_1", "sunny"),
        {"role": "result", "content": text("sunny")},
        "fe5d65034d501c67206a10680881e758ebcbafda445fddc82a567d982f061ba5",
    ),
    "result object": (
        cannery.result("call_1", {"temp": 62.0}),
        {"role": "result", "content": {"kind": "data", "json": '{"temp": 62}'}},
        "b134e543c4cfbba460c4a8d245726bbcbdd9b4ac360e9f2e0239f550575492dd",
    ),
    "result long text": (
        cannery.result("call_1", LONG),
        {"role": "result", "content": text(LONG)},
        "5a57eac80ef9e42786a60c5f4fe0fbb6df1ad0b73772adc3c6e0f6428031dd4a",
    ),
    "result of parts": (
        cannery.result(
            "call_1",
            cannery.PartsContentClass(
                [cannery.TextualContentClass("see"), cannery.ImageContentClass(PNG, "image/png")]
            ),
        ),
        {
            "role": "result",
            "content": {
                "kind": "parts",
                "parts": [text("see"), {"kind": "image", "payload": {"bytes": PNG}}],
            },
        },
        "db3fdcec7c0552fc9abc2e8132174611f8554c2841243e238eeec35d4f070b5c",
    ),
    "result with error flag": (
        cannery.result("call_1", "no such city", error=True),
        {"role": "result", "content": text("no such city"), "error": True},
        "53592c4ae4b15547de2d7bec2d14c81f482d9bea35af18b8f72ce2c775969a7c",
    ),
    "result with error text": (
        cannery.result("call_1", "partial", error="timed out"),
        {"role": "result", "content": text("partial"), "error": "timed out"},
        "3f91e25294f30a53aaca35cb2a44c25bb6ff1a1de791c528b424891a8705a263",
    ),
}
EQUAL = [
    ("user image", "user image by id"),
]


@pytest.mark.parametrize("name", VECTORS)
def test_frozen_digest(name):
    canister, described, frozen = VECTORS[name]

    assert cannery.digest(canister).hex() == frozen
    assert reference.digest(described).hex() == frozen


def test_only_equal_meanings_share_a_digest():
    digests = {name: cannery.digest(canister) for name, (canister, _, _) in VECTORS.items()}
    shared = [
        (one, other)
        for one in digests
        for other in digests
        if one < other and digests[one] == digests[other]
    ]

    assert shared == EQUAL


def test_frozen_chain():
    conversation = [canister for canister, _, _ in VECTORS.values()]
    described = [
        {"id": "call_1", "answers": "call_1", **plain}
        | ({"id": "call_123"} if n == "invocation" else {})
        for n, (_, plain, _) in VECTORS.items()
    ]

    chain = list(cannery.prefix_digests(conversation))
    assert chain == reference.prefix_digests(described)
    assert list(cannery.prefix_digests(conversation, reasoning=False)) == reference.prefix_digests(
        described, reasoning=False
    )
    assert chain[-1] is not None
    assert chain[-1].hex() == "ba890d55299f2cd7e6c5a3e9000117dcf7b1f176ea0cf3a66e8616c0cd3ef6f7"


def test_the_page_shows_what_is_computed():
    page = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")
    conversation = [
        cannery.user("What's the weather in SF?"),
        cannery.assistant(),
        cannery.invocation("call_123", "get_weather", '{ "location": "San Francisco, CA" }'),
        cannery.result("call_123", '{"temp": 62.0}'),
    ]
    shown = set(re.findall(r"\b[0-9a-f]{64}\b", page))

    assert shown == {
        reference.ROOT.hex(),
        cannery.digest(cannery.user("Hi")).hex(),
        *(cannery.digest(canister).hex() for canister in conversation),
        *(chain.hex() for chain in cannery.prefix_digests(conversation) if chain),
    }
    pieces = "".join(re.findall(r"\b[0-9a-f]{2,}\b", page))
    assert hashlib.sha256(b"Hi").hexdigest() in pieces


@pytest.mark.parametrize(
    "text, expected",
    re.findall(
        r"^\| ((?:`[^`]+`(?:, )?)+) \| `([^`]+)` \|$",
        (Path(__file__).parents[2] / "docs" / "identity.md")
        .read_text(encoding="utf-8")
        .partition("| text | canonical |")[2],
        re.MULTILINE,
    ),
)
def test_the_page_shows_canonical_json(text, expected):
    for spelled in re.findall("`([^`]+)`", text):
        assert canonical_text(spelled) == expected
        assert reference.canonical(spelled) == expected.encode()


@given(ARGUMENT_TEXTS | JSON_TEXTS | st.floats().map(repr) | st.text())
def test_canonical_json_agrees_with_the_reference(text):
    ours = canonical_text(text)

    assert (None if ours is None else ours.encode()) == reference.canonical(text)


@given(canisters_described())
def test_digest_agrees_with_the_reference(pair):
    canister, described = pair

    assert cannery.digest(canister) == reference.digest(described)


@given(st.lists(canisters_described(), max_size=6), st.booleans())
def test_chain_agrees_with_the_reference(pairs, reasoning):
    canisters = [canister for canister, _ in pairs]
    described = [plain for _, plain in pairs]

    assert list(cannery.prefix_digests(canisters, reasoning=reasoning)) == reference.prefix_digests(
        described, reasoning=reasoning
    )
