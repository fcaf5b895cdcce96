"""A second implementation of docs/identity.md, from that page alone, with nothing but the standard library.

Canisters are described by plain dicts, so that nothing of the package takes part.
"""

import decimal
import hashlib
import json
import re

VERSION = b"cannery-identity-1"
DEEPEST = 128
LONGEST_INTEGER = 4300
ROOT = hashlib.sha256(VERSION + b" conversation").digest()


def sha256(data):
    return hashlib.sha256(data).digest()


def utf8(text):
    whole = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
    return whole.encode("utf-8")


def hashed(fields):
    return sha256(VERSION + b"".join(len(field).to_bytes(8, "big") + field for field in fields))


# --- canonical JSON --------------------------------------------------------------------------------


class UnreadableError(ValueError):
    pass


def parse_integer(text):
    if len(text) > LONGEST_INTEGER:
        raise UnreadableError(text)
    return int(text)


def parse_float(text):
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise UnreadableError(text)
    return value


def refuse(text):
    raise UnreadableError(text)


DECODER = json.JSONDecoder(
    parse_int=parse_integer, parse_float=parse_float, parse_constant=refuse, strict=True
)


def read_json(text):
    """The value, or UnreadableError."""
    stripped = utf8(text).decode().strip(" \t\n\r")
    try:
        value, end = DECODER.raw_decode(stripped)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(text) from error
    if end != len(stripped):
        raise UnreadableError(text)
    return value


def write_string(text):
    named = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    spelled = [
        named.get(ord(character))
        or (f"\\u{ord(character):04x}" if ord(character) < 32 else character)
        for character in utf8(text).decode()
    ]
    return '"' + "".join(spelled) + '"'


def write_float(value):
    if value == int(value) and abs(value) < 2**53:
        return str(int(value))
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    return ("-" if sign else "") + "".join(map(str, digits)) + f"e{exponent}"


def write_json(value, levels=DEEPEST):
    if value is None or value is True or value is False:
        return json.dumps(value)
    if isinstance(value, str):
        return write_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return write_float(value)
    if levels == 0:
        raise UnreadableError("too deep")
    if isinstance(value, list):
        return "[" + ",".join(write_json(item, levels - 1) for item in value) + "]"
    whole = {utf8(key): item for key, item in value.items()}
    pairs = [
        f"{write_string(key.decode())}:{write_json(whole[key], levels - 1)}"
        for key in sorted(whole)
    ]
    return "{" + ",".join(pairs) + "}"


def canonical(text):
    """The canonical JSON in UTF-8, or None if the text cannot be read."""
    try:
        return utf8(write_json(read_json(text)))
    except UnreadableError:
        return None


# --- contents --------------------------------------------------------------------------------------


def text_fields(text, mime_type="text/plain"):
    mime = mime_type.split(";")[0].strip().lower()
    fields = [b"text", sha256(utf8(text))]
    return fields if mime == "text/plain" else [*fields, utf8(mime)]


def id_field(content_id):
    found = re.fullmatch("sha256:([0-9a-f]{64})", content_id)
    return bytes.fromhex(found[1]) if found else utf8(content_id)


def base64_bytes(text):
    """The bytes, or None if the text does not decode."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    if len(plain) % 4 == 1 or set(plain) - set(alphabet):
        return None
    bits = "".join(f"{alphabet.index(character):06b}" for character in plain)
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) - 7, 8))


def payload_fields(payload):
    match payload:
        case {"bytes": data}:
            return [b"sha256", sha256(data)]
        case {"base64": text}:
            data = base64_bytes(text)
            return [b"not base64", utf8(text)] if data is None else [b"sha256", sha256(data)]
        case {"id": content_id}:
            return [b"sha256", id_field(content_id)]
        case {"url": value}:
            return [b"url", utf8(value)]
        case {"file": value}:
            return [b"file", utf8(value)]
    raise AssertionError(payload)


def reasoning_fields(content):
    fields = [b"reasoning"]
    for text in content.get("texts", []):
        fields += [b"text", utf8(text)]
    for summary in content.get("summaries", []):
        fields += [b"summary", utf8(summary)]
    for name in ("signature", "encrypted"):
        if content.get(name):
            fields += [name.encode(), utf8(content[name])]
    return fields


def file_fields(content):
    if content.get("chunks"):
        fields = [b"file", b"parts", *(hashed(content_fields(c)) for c in content["chunks"])]
    else:
        fields = [b"file", *payload_fields(content["payload"])]
    if content.get("context") is not None:
        fields += [b"context", utf8(content["context"])]
    return fields


def content_fields(content):
    kind = content["kind"]
    match kind:
        case "text":
            mime = content.get("mime", "text/plain")
            if "id" in content:
                return [b"text", id_field(content["id"]), *text_fields("", mime)[2:]]
            return text_fields(content["text"], mime)
        case "image" | "audio" | "video":
            return [kind.encode(), *payload_fields(content["payload"])]
        case "file":
            return file_fields(content)
        case "reasoning":
            return reasoning_fields(content)
        case "refusal":
            return [b"refusal", utf8(content["text"])]
        case "data":
            value = canonical(content["json"])
            return text_fields(content["json"]) if value is None else [b"data", value]
        case "opaque":
            value = canonical(content["json"])
            block = [b"text", utf8(content["json"])] if value is None else [b"json", value]
            return [b"opaque", utf8(content["dialect"]), *block]
        case "parts":
            parts = content["parts"]
            if len(parts) < 2:
                return content_fields(parts[0]) if parts else text_fields("")
            return [b"parts", *(hashed(content_fields(part)) for part in parts)]
    raise AssertionError(kind)


# --- canisters and histories -----------------------------------------------------------------------


def invocation_fields(canister):
    name, text = utf8(canister["name"]), canister["arguments"]
    if canister.get("freeform"):
        return [name, b"freeform", utf8(text)]
    if not text.strip(" \t\n\r"):
        return [name, b"json", b"{}"]
    value = canonical(text)
    return [name, b"text", utf8(text)] if value is None else [name, b"json", value]


def result_fields(canister):
    content, error = canister["content"], canister.get("error")
    if content["kind"] == "parts" and len(content["parts"]) == 1:
        content = content["parts"][0]
    if isinstance(error, str) and content_fields(content) == text_fields(""):
        content = {"kind": "text", "text": error}
    answer = content_fields(content)
    text = content.get("text", "") if content["kind"] == "text" else ""
    if text.startswith(("{", "[")) and len(utf8(text)) < 1024 and canonical(text) is not None:
        answer = [b"data", canonical(text)]
    fields = [b"error" if error else b"ok", *answer]
    if isinstance(error, str) and text_fields(error) != content_fields(content):
        fields += [b"error", utf8(error)]
    return fields


def is_wordless(canister):
    content = canister.get("content")
    return canister["role"] == "assistant" and (
        content is None or content_fields(content) == text_fields("")
    )


def digest(canister):
    role = canister["role"]
    match role:
        case "assistant" if is_wordless(canister):
            fields = []
        case "user" | "assistant" | "supervisor":
            fields = content_fields(canister["content"])
        case "document":
            fields = [utf8(canister.get("title", "")), *content_fields(canister["content"])]
        case "invocation":
            fields = invocation_fields(canister)
        case "result":
            fields = result_fields(canister)
        case _:
            raise AssertionError(role)
    return hashed([role.encode(), *fields])


def prefix_digests(canisters, *, reasoning=True):
    chain = ROOT
    calls: list[str] = []
    found: list[bytes | None] = []
    for canister in canisters:
        content = canister.get("content")
        is_thought = canister["role"] == "assistant" and content and content["kind"] == "reasoning"
        if is_wordless(canister) or (is_thought and not reasoning):
            found.append(None)
            continue
        link = b""
        if canister["role"] == "result":
            answered = [
                n for n, identifier in enumerate(calls) if identifier == canister["answers"]
            ]
            link = str(answered[-1]).encode() if answered else b"orphan"
        if canister["role"] == "invocation":
            calls.append(canister["id"])
        chain = sha256(chain + digest(canister) + link)
        found.append(chain)
    return found
