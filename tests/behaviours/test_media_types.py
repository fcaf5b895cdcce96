"""A declared media type stays unless the bytes contradict it: containers do not say what they hold."""

from __future__ import annotations

import base64

import pytest

from cannery.messages.content import new_audio, new_file, new_image, new_video
from cannery.messages.payload import Base64
from cannery.wire.media import true_mime_type
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told

MAKERS = {"image": new_image, "audio": new_audio, "video": new_video}


def _brand(name: bytes) -> bytes:
    return b"\0\0\0\x18ftyp" + name + b"\0\0\0\0" + name + bytes(40)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
JPEG = b"\xff\xd8\xff\xe0" + bytes(40)
PDF = b"%PDF-1.4\n" + bytes(40)
OGG = b"OggS\0\2" + bytes(40)
EBML = b"\x1aE\xdf\xa3" + bytes(40)
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(40)
AVI = b"RIFF\x24\0\0\0AVI LIST" + bytes(40)
TAGGED = b"ID3\x03\0\0" + bytes(40)
FRAMES = b"\xff\xfb\x90\x64" + bytes(40)
NOTHING = b"\x01\x02\x03\x04" + bytes(40)

# The bytes, types that are right for them, and what a wrong one becomes.
SIGNATURES = {
    "png": (PNG, ["image/png"], "image/png"),
    "jpeg": (JPEG, ["image/jpeg"], "image/jpeg"),
    "pdf": (PDF, ["application/pdf"], "application/pdf"),
    "heic": (_brand(b"heic"), ["image/heic", "image/heif"], "image/heic"),
    "heix": (_brand(b"heix"), ["image/heic", "image/heif"], "image/heic"),
    "heim": (_brand(b"heim"), ["image/heic", "image/heif"], "image/heic"),
    "heis": (_brand(b"heis"), ["image/heic", "image/heif"], "image/heic"),
    "hevc": (_brand(b"hevc"), ["image/heic", "image/heic-sequence"], "image/heic-sequence"),
    "hevx": (_brand(b"hevx"), ["image/heif", "image/heif-sequence"], "image/heic-sequence"),
    "mif1": (_brand(b"mif1"), ["image/heif", "image/heic", "image/avif"], "image/heif"),
    "msf1": (_brand(b"msf1"), ["image/heif", "image/heif-sequence"], "image/heif-sequence"),
    "avif": (_brand(b"avif"), ["image/avif", "image/heif"], "image/avif"),
    "avis": (_brand(b"avis"), ["image/avif", "image/avif-sequence"], "image/avif"),
    "qt": (_brand(b"qt  "), ["video/quicktime", "video/mov"], "video/quicktime"),
    "m4a": (_brand(b"M4A "), ["audio/mp4", "audio/m4a", "audio/x-m4a"], "audio/mp4"),
    "m4b": (_brand(b"M4B "), ["audio/mp4", "audio/x-m4b"], "audio/mp4"),
    "m4v": (_brand(b"M4V "), ["video/mp4", "video/x-m4v"], "video/mp4"),
    "mp42": (_brand(b"mp42"), ["video/mp4", "audio/mp4", "video/quicktime"], "video/mp4"),
    "isom": (_brand(b"isom"), ["video/mp4", "audio/mp4", "audio/m4a"], "video/mp4"),
    "3gp5": (_brand(b"3gp5"), ["video/3gpp", "audio/3gpp", "video/mp4"], "video/3gpp"),
    "3g2a": (_brand(b"3g2a"), ["video/3gpp2", "audio/3gpp2"], "video/3gpp2"),
    "ogg": (OGG, ["audio/ogg", "video/ogg", "audio/opus"], "audio/ogg"),
    "webm": (EBML, ["video/webm", "audio/webm", "video/x-matroska"], "video/webm"),
    "wav": (WAV, ["audio/wav"], "audio/wav"),
    "avi": (AVI, ["video/x-msvideo", "video/avi"], "video/x-msvideo"),
    "id3": (TAGGED, ["audio/mpeg", "audio/aac"], "audio/mpeg"),
    "frames": (FRAMES, ["audio/mpeg", "audio/pcm"], "audio/mpeg"),
}
WRONG = ("image/gif", "image/webp", "text/css", "application/octet-stream", "")


def _content(mime_type: str, data: bytes):
    family = mime_type.partition("/")[0]
    return MAKERS.get(family, new_file)(Base64(base64.b64encode(data).decode()), mime_type)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_right_type_is_corrected(name: str):
    data, right, _ = SIGNATURES[name]
    for declared in right:
        assert true_mime_type(_content(declared, data)) == declared
        assert true_mime_type(_content(declared.upper(), data)) == declared


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_wrong_type_stays(name: str):
    data, right, usual = SIGNATURES[name]
    assert usual in right or usual == "image/heic-sequence"
    for declared in WRONG:
        assert true_mime_type(_content(declared, data)) == usual
    for other, types, _ in SIGNATURES.values():
        if other is not data and types[0] not in right and "image" in types[0]:
            is_kin = {"image/heif", "image/heic", "image/avif"} & {types[0], usual}
            assert is_kin or true_mime_type(_content(types[0], data)) == usual


@pytest.mark.parametrize(
    "declared, data",
    [
        *[(declared, NOTHING) for declared in ("image/png", "audio/pcm", "video/mp4", "text/css")],
        ("text/plain", b"ID3 tags are metadata of sound files."),
        ("image/x-canon-cr3", _brand(b"crx ")),
        ("audio/wav", b"\xff\xfb\xff\xff" + bytes(40)),
    ],
)
def test_bytes_that_tell_nothing_correct_a_type(declared: str, data: bytes):
    assert true_mime_type(_content(declared, data)) == declared


@pytest.mark.parametrize(
    "declared, usual",
    [("audio/x-wav", "audio/wav"), ("audio/wave", "audio/wav"), ("audio/vnd.wave", "audio/wav")],
)
def test_another_spelling_is_a_wrong_type(declared: str, usual: str):
    assert true_mime_type(_content(declared, WAV)) == usual
    assert true_mime_type(_content(declared, NOTHING)) == usual


@pytest.mark.parametrize("brand", ["heic", "mif1", "avif"])
def test_a_photo_becomes_a_video(brand: str):
    data, right, _ = SIGNATURES[brand]
    encoded = base64.b64encode(data).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:{right[0]};base64,{encoded}"}}
    found = told({"model": "m", "messages": [{"role": "user", "content": [image]}]}, CHAT, GEMINI)
    blob = {"mimeType": right[0], "data": encoded}
    assert found.body["contents"][0]["parts"] == [{"inlineData": blob}]
    assert found.repairs == set()


def test_sound_in_a_container_becomes_a_video():
    blob = {"mimeType": "audio/webm", "data": base64.b64encode(EBML).decode()}
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}, {"inlineData": blob}]}]}
    found = told(body, GEMINI, CHAT, model="m")
    assert [loss.detail for loss in found.rendered.losses] == ["Chat takes wav and mp3 as base64"]


def _shown(mime_type: str, data: bytes) -> list[tuple[str, dict]]:
    """An image in every dialect that could bring it to Chat."""
    text = base64.b64encode(data).decode()
    source = {"type": "base64", "media_type": mime_type, "data": text}
    claude = {"role": "user", "content": [{"type": "image", "source": source}]}
    url = {"type": "input_image", "detail": "auto", "image_url": f"data:{mime_type};base64,{text}"}
    part = {"inlineData": {"mimeType": mime_type, "data": text}}
    return [
        (CLAUDE, {"model": "m", "max_tokens": 9, "messages": [claude]}),
        (RESPONSES, {"model": "m", "input": [{"role": "user", "content": [url]}]}),
        (GEMINI, {"contents": [{"role": "user", "parts": [part]}]}),
    ]


@pytest.mark.parametrize(
    "mime_type, data",
    [
        ("image/heic", _brand(b"heic")),
        ("image/png", _brand(b"avif")),
        ("image/tiff", b"II*\0" + bytes(40)),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    ],
)
def test_chat_gets_an_image_that_it_does_not_take(mime_type: str, data: bytes):
    for source, body in _shown(mime_type, data):
        found = told(body, source, CHAT, model="gpt-5.5")
        assert "image_url" not in found.rendered.body.decode()
        assert found.losses == {"MEDIA_TYPE_UNSUPPORTED"}


def test_a_pdf_is_an_image_for_chat():
    for source, body in _shown("image/png", PDF):
        part = told(body, source, CHAT, model="gpt-5.5").body["messages"][0]["content"][0]
        assert part["type"] == "file"
        assert part["file"]["file_data"].startswith("data:application/pdf;base64,")


@pytest.mark.parametrize(
    "address", ["s3://b/a.png", "ftp://e.example/a.png", "file:///a.png", "a.png"]
)
@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI])
def test_an_address_that_no_server_fetches_is_sent(target: str, address: str):
    image = {"type": "input_image", "detail": "auto", "image_url": address}
    body = {"model": "m", "input": [{"role": "user", "content": [image]}]}
    found = told(body, RESPONSES, target, model="m")
    assert address not in found.rendered.body.decode()
    assert found.losses == {"REFERENCE_UNRESOLVABLE"}
