"""Decompresses answers piece by piece, so that a decompression bomb is noticed early.

Returns at most `PIECE` bytes at a time however small the input was; the reader counts and stops. Supports only gzip and
deflate, the two that we offer. Raises only CompressionError.
"""

import zlib

PIECE = 64 * 1024
OFFERED = "gzip, deflate"

_GZIP = 16 + zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


class CompressionError(Exception):
    """The data does not match its header, or uses a compression that we did not offer."""


class Inflater:
    """Push compressed bytes in, pull plain pieces out."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise CompressionError(f"it is compressed with '{encoding}', which was not offered")
        self._stream = None if encoding == "deflate" else zlib.decompressobj(_GZIP)
        self._input = b""

    @property
    def complete(self) -> bool:
        return self._stream is None or self._stream.eof

    def push(self, data: bytes) -> None:
        self._input = self._input + data if self._input else data

    def pull(self) -> bytes:
        """The next piece, or b"" when more input is needed."""
        if self._stream is None:
            if not self._input:
                return b""
            # "deflate" means the zlib format; some servers send raw deflate, which the first byte shows.
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if self._input[0] & 0x0F == 8 else _RAW)
        try:
            piece = self._stream.decompress(self._input, PIECE)
        except zlib.error as problem:
            raise CompressionError(f"its compression is broken ({problem})") from None
        if self._stream.unused_data:
            raise CompressionError("something follows the end of its compressed data")
        self._input = self._stream.unconsumed_tail
        return piece
