"""zstd compression: level 3, one context per thread, decompression bounded by the declared size."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3
_SAMPLE = 16 << 10
# Below this, starting a decompressor costs more than reading the bytes.
_SMALLEST = 4096
_WINDOW = 1 << 20
_ANY_SIZE = 1 << 62
_local = threading.local()


def compress(data: bytes) -> bytes | None:
    """A zstd frame, or None if it would save less than an eighth."""
    length = len(data)
    if length < _SMALLEST:
        return None
    if length > 4 * _SAMPLE:
        middle = (length - _SAMPLE) // 2
        if not _saves(_frame(data[middle : middle + _SAMPLE]), _SAMPLE):
            return None
    frame = _frame(data)
    return frame if _saves(frame, length) else None


def decompress(frame: bytes, size: int) -> bytes:
    """The content of a frame that must have exactly ``size`` bytes; ValueError otherwise."""
    decompressor = zstd.ZstdDecompressor()
    try:
        data = decompressor.decompress(frame, max_length=size)
        # The end of the frame may still be unread; it must not contain another byte.
        more = not decompressor.eof and not decompressor.needs_input
        extra = decompressor.decompress(b"", max_length=1) if more else b""
    except zstd.ZstdError as error:
        raise ValueError(f"not a zstd frame: {error}") from None
    if len(data) != size or extra or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"not one frame of {size} bytes")
    return data


def is_worth(data: bytes) -> bool:
    """Whether content with this beginning is worth compressing."""
    sample = data[:_SAMPLE]
    return len(sample) >= _SMALLEST and _saves(_frame(sample), len(sample))


class Compressor:
    """One frame of content that arrives in pieces."""

    def __init__(self) -> None:
        self._zstd = zstd.ZstdCompressor(level=_LEVEL)

    def add(self, data: bytes) -> bytes:
        """The next bytes of the frame."""
        return self._zstd.compress(data)

    def finish(self) -> bytes:
        """The end of the frame."""
        return self._zstd.flush(zstd.ZstdCompressor.FLUSH_FRAME)


def decompress_pieces(frame: Iterable[bytes], size: int | None) -> Iterator[bytes]:
    """The content of a frame that arrives in pieces and has ``size`` bytes, if given; ValueError otherwise."""
    decompressor = zstd.ZstdDecompressor()
    left = _ANY_SIZE if size is None else size
    try:
        for piece in frame:
            fed = piece
            while fed or not (decompressor.needs_input or decompressor.eof):
                # One byte beyond the limit shows that the content is too long.
                data = decompressor.decompress(fed, max_length=min(left + 1, _WINDOW))
                fed = b""
                left -= len(data)
                if left < 0:
                    break
                yield data
            if left < 0 or decompressor.eof:
                break
    except zstd.ZstdError as error:
        raise ValueError(f"not a zstd frame: {error}") from None
    if (size is not None and left) or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"not one frame of {size} bytes" if size is not None else "not one frame")


def _frame(data: bytes) -> bytes:
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstd.ZstdCompressor(level=_LEVEL)
    return compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def _saves(frame: bytes, length: int) -> bool:
    return len(frame) <= length - length // 8
