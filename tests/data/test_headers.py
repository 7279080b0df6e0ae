"""Cheap checks of picture files: what is counted, and what is left to the decoder."""

from __future__ import annotations

import struct

import pytest
from PIL import Image

from fpgm.data import headers
from fpgm.data.headers import MAX_SCANS, header_problem
from tests.data.pictures import encoded, scan_bomb, tile_bomb
from tests.fuzz.pictures import GOOD


@pytest.mark.parametrize("data", GOOD)
def test_ordinary_files_pass(data: bytes) -> None:
    assert header_problem(data) is None


def test_scans_are_counted() -> None:
    assert header_problem(scan_bomb(MAX_SCANS)) is None
    assert header_problem(scan_bomb(MAX_SCANS + 1)) == "its JPEG has 65 scans; up to 64 are read"


def test_scans_of_a_preview_and_of_appended_files_are_not_counted() -> None:
    """A phone appends a film to its photo, and cameras put a small photo into the header."""
    many = b"\xff\xda" * 1000
    good = encoded(Image.new("RGB", (8, 8)), "JPEG", progressive=True)
    preview = b"\xff\xe1" + struct.pack(">H", len(many) + 2) + many
    assert header_problem(good + many) is None
    assert header_problem(good[:2] + preview + good[2:]) is None


def big_tiff(side: int) -> bytes:
    """The tags of a tile in a BigTIFF, whose numbers have eight bytes."""
    entries = b"".join(struct.pack(">HHQI4x", tag, 4, 1, side) for tag in (322, 323))
    return b"MM\0+" + struct.pack(">HHQ", 8, 0, 16) + struct.pack(">Q", 2) + entries + bytes(8)


@pytest.mark.parametrize("make", [tile_bomb, big_tiff])
def test_a_tile_is_held_in_memory_as_a_whole(make: object) -> None:
    assert callable(make)
    assert header_problem(make(8192)) is None
    assert header_problem(make(46336)) == "its TIFF has a tile of 46,336 x 46,336; up to 67,108,864 pixels are read"


def test_pages_are_counted_and_a_ring_of_pages_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [Image.new("L", (4, 4))] * 3
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert header_problem(data) is None
    monkeypatch.setattr(headers, "MAX_FRAMES", 2)
    assert "over 2 pages" in str(header_problem(data))
    ring = b"II*\0" + struct.pack("<IHI", 8, 0, 8)  # a page without tags, followed by itself
    assert header_problem(ring) is None


@pytest.mark.parametrize("cut", [4, 7, 8, 20, 60])
def test_a_tiff_that_is_cut_short_is_left_to_the_decoder(cut: int) -> None:
    assert header_problem(encoded(Image.new("L", (4, 4)), "TIFF")[:cut]) is None


@pytest.mark.parametrize("place", [2**31, 2**63, 2**64 - 1])
def test_a_page_beyond_the_end_is_left_to_the_decoder(place: int) -> None:
    assert header_problem(b"II+\0\x08\0\0\0" + struct.pack("<Q", place)) is None
