"""Byte ranges of zarr's requests."""

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest


def bounds(size, byte_range):
    """The start and the end of the requested bytes."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, RangeByteRequest):
        return min(byte_range.start, size), min(byte_range.end, size)
    if isinstance(byte_range, OffsetByteRequest):
        return min(byte_range.offset, size), size
    if isinstance(byte_range, SuffixByteRequest):
        return max(0, size - byte_range.suffix), size
    raise ValueError(f"Unexpected byte_range, got {byte_range}.")
