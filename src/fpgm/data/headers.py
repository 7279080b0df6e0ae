"""Cheap checks of a picture file before it is decoded: scans of a JPEG, tiles and pages of a TIFF.

The numbers of a file are read, none of its pixels. What passes here can still be refused by the decoder, which runs
in a process with limits of its own; see ``fpgm.data.sandbox``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

MAX_SCANS = 64  # of a JPEG; encoders write about ten, and each costs a pass over the whole picture
MAX_TILE = 2**26  # pixels of one tile of a TIFF, which is held in memory as a whole
MAX_FRAMES = 10_000  # of an animation or a TIFF of several pages
_MAX_TAGS = 300_000  # of all pages of a TIFF
_TILE_WIDTH, _TILE_LENGTH = 322, 323


def header_problem(data: bytes) -> str | None:
    """Say why a file is not worth decoding; None if nothing is known against it."""
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > MAX_SCANS:
        scans = _count_scans(data)
        return f"its JPEG has {scans} scans; up to {MAX_SCANS} are read" if scans > MAX_SCANS else None
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        try:
            return _tiff_problem(data)
        except struct.error:  # cut short: the decoder says so
            return None
    return None


def _count_scans(data: bytes) -> int:
    """Count the scans between the header and the end of a picture: previews and appended files are not its own."""
    place = 2
    while data[place : place + 1] == b"\xff" and data[place + 1 : place + 2] not in (b"\xda", b""):
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    scans = 0
    for marker in re.finditer(rb"\xff[\xd9\xda]", data[place:]):
        if marker[0] == b"\xff\xd9":
            break
        scans += 1
    return scans


def _tiff_problem(data: bytes) -> str | None:
    frames = tags = 0
    for page in _pages(data):
        frames, tags = frames + 1, tags + len(page)
        if frames > MAX_FRAMES or tags > _MAX_TAGS:
            return f"its TIFF has over {MAX_FRAMES:,} pages or {_MAX_TAGS:,} tags; cut it first"
        sides = [value for tag, value in page if tag in (_TILE_WIDTH, _TILE_LENGTH)]
        if len(sides) > 1 and sides[0] * sides[1] > MAX_TILE:
            return f"its TIFF has a tile of {sides[0]:,} x {sides[1]:,}; up to {MAX_TILE:,} pixels are read"
    return None


def _pages(data: bytes) -> Iterator[list[tuple[int, int]]]:
    """Yield the tags of each page of a TIFF with their first value, if that is a 16-bit or 32-bit number."""
    order, big = "<" if data[:1] == b"I" else ">", data[:4] in (b"II+\0", b"MM\0+")
    count, offset, entry = ("Q", "Q", "HHQ8s") if big else ("H", "I", "HHI4s")
    count_format, offset_format, entry_format = (struct.Struct(order + one) for one in (count, offset, entry))
    short, long = struct.Struct(order + "H"), struct.Struct(order + "I")
    (place,) = offset_format.unpack_from(data, 8 if big else 4)
    seen: set[int] = set()
    while place and place not in seen:
        seen.add(place)
        if place > len(data):  # of 64 bits, it may be more than an index can be
            raise struct.error
        (number,) = count_format.unpack_from(data, place)
        start = place + count_format.size
        end = start + number * entry_format.size
        if end + offset_format.size > len(data):
            raise struct.error
        entries = entry_format.iter_unpack(memoryview(data)[start:end])
        numbers = {3: short, 4: long}
        yield [(tag, numbers[kind].unpack_from(value)[0] if kind in numbers else 0) for tag, kind, _, value in entries]
        (place,) = offset_format.unpack_from(data, end)
