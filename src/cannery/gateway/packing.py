"""Compressed request bodies: gzip, deflate and zstd, decompressed within the size limit.

A small body may decompress to a huge one, so decompression stops at the limit instead of measuring afterwards.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable

from cannery.gateway.refusals import refuse

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Unpack = Callable[[bytes, int], bytes]
_WINDOW = zstd.DecompressionParameter.window_log_max


def find_packing(encoding: str) -> Unpack | None:
    """The function that decompresses a content encoding, None for identity; an unknown encoding is refused."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    found = _PACKINGS.get(name)
    if found is None:
        message = f"content-encoding {encoding[:50]!r} is not supported"
        raise refuse(415, message, headers=[("accept-encoding", ", ".join(ACCEPTED))])
    return found


def _gunzip(body: bytes, limit: int) -> bytes:
    return _inflate(body, limit, zlib.MAX_WBITS | 32)


def _inflate_raw_or_wrapped(body: bytes, limit: int) -> bytes:
    """Decode ``deflate``, which has a zlib header according to RFC 9110 and none from many clients."""
    has_header = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _inflate(body, limit, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _inflate(body: bytes, limit: int, window: int) -> bytes:
    pieces: list[bytes] = []
    room = limit + 1
    while body:
        unpacker = zlib.decompressobj(window)
        try:
            pieces.append(unpacker.decompress(body, room))
        except zlib.error:
            raise _broken() from None
        room -= len(pieces[-1])
        if room <= 0:
            raise OverflowError
        if not unpacker.eof:
            raise _broken()
        body = unpacker.unused_data
    return b"".join(pieces)


def _unzstd(body: bytes, limit: int) -> bytes:
    # RFC 9659: a server must not be required to use a window beyond 8 MB.
    unpacker = zstd.ZstdDecompressor(options={int(_WINDOW): 23})
    try:
        unpacked = unpacker.decompress(body, limit + 1)
    except zstd.ZstdError:
        raise _broken() from None
    if len(unpacked) > limit:
        raise OverflowError
    if not unpacker.eof:
        raise _broken()
    return unpacked


def _broken() -> Exception:
    return refuse(400, "the body cannot be decoded with its content-encoding")


_PACKINGS: dict[str, Unpack] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate_raw_or_wrapped,
    "zstd": _unzstd,
}
ACCEPTED = ("gzip", "deflate", "zstd")
