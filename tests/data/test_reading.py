"""Picture files of every format, whole and damaged, to pixels."""

from __future__ import annotations

import io
import zlib

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from fpgm.data import prepare
from fpgm.data.prepare import Refused, prepare_image, read_hdf5, read_mask, read_picture
from tests.data.pictures import disc, encoded, scene

Array = NDArray[np.generic]


def test_palette_with_a_transparent_colour() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([255, 0, 0, 0, 255, 0])
    picture.putpixel((1, 0), 1)
    read = read_picture(encoded(picture, transparency=1))
    assert [read.getpixel((x, 0)) for x in (0, 1)] == [(255, 0, 0), (0, 0, 0)]


# EXIF orientation 6: the camera was turned; the file's left edge is the picture's top.
def test_exif_orientation_is_applied() -> None:
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[1, 0] = 255  # lower left in the file, upper left when upright
    tags = Image.Exif()
    tags[0x0112] = 6
    upright = read_picture(encoded(Image.fromarray(pixels), exif=tags))
    assert upright.size == (2, 3)
    assert upright.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("format", ["PNG", "TIFF", "BMP", "GIF", "WEBP", "JPEG"])
def test_formats(format: str) -> None:
    picture = read_picture(encoded(Image.new("RGB", (20, 10), (200, 30, 60)), format))
    assert picture.size == (20, 10)
    assert np.abs(np.subtract(picture.getpixel((5, 5)), (200, 30, 60))).max() <= 4


# ---- damaged files


def test_no_content() -> None:
    with pytest.raises(Refused, match="no content") as error:
        read_picture(b"")
    assert error.value.kind == "empty file"


@pytest.mark.parametrize("data", [b"hello", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_no_picture(data: bytes) -> None:
    with pytest.raises(Refused, match="cannot be decoded") as error:
        read_picture(data)
    assert error.value.kind in ("unreadable", "truncated")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "BMP"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_truncated(format: str, share: float) -> None:
    data = encoded(Image.fromarray(scene(3, 200, 300)), format)
    with pytest.raises(Refused, match="cannot be decoded") as error:
        read_picture(data[: int(share * len(data))])
    assert error.value.kind in ("truncated", "unreadable")
    if format in ("JPEG", "BMP"):
        assert error.value.kind == "truncated"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["JPEG", "PNG", "TIFF", "GIF", "BMP", "WEBP"]),
    st.integers(0, 10**9),
    st.binary(min_size=1, max_size=8),
)
def test_a_damaged_file_is_read_or_refused(format: str, place: int, junk: bytes) -> None:
    data = bytearray(encoded(Image.fromarray(scene(4, 16, 16)), format))
    place %= len(data)
    data[place : place + len(junk)] = junk
    try:
        assert prepare_image(read_picture(bytes(data)), 16).shape == (16, 16, 3)
    except Refused as error:
        assert error.kind


def test_too_many_pixels_are_refused_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.new("1", (101, 100)))
    monkeypatch.setattr(prepare, "MAX_PIXELS", 10_100)
    assert read_picture(data).size == (101, 100)
    monkeypatch.setattr(prepare, "MAX_PIXELS", 10_099)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(Refused, match="101 x 100 is over 10,099 pixels") as error:
        read_picture(data)
    assert error.value.kind == "too large"


# A header of 60,000 x 60,000 pixels in a file of a few bytes; Pillow's own alarm is caught as well.
@pytest.mark.parametrize("side", [9_000, 60_000])
def test_decompression_bomb(side: int) -> None:
    data = bytearray(encoded(Image.new("1", (8, 8))))
    data[16:24] = side.to_bytes(4) + side.to_bytes(4)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    with pytest.raises(Refused, match="pixels; reduce it first") as error:
        read_picture(bytes(data))
    assert error.value.kind == "too large"


# ---- the released code's HDF5 files


def hdf5(**content: Array) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as store:
        for name, values in content.items():
            store[name] = values
    return file.getvalue()


@pytest.mark.parametrize("kind", ["(3, H, W) float", "(H, W, 3) float", "(H, W, 3) uint8"])
def test_hdf5_gives_back_the_pixels(kind: str) -> None:
    pixels, label = scene(6, 40, 30), (disc(40, 30, 9) > 0).astype(np.uint8)
    image = pixels if "uint8" in kind else (pixels / 255).astype(np.float32)
    picture, mask = read_hdf5(hdf5(image=image.transpose(2, 0, 1) if kind.startswith("(3") else image, label=label))
    assert np.array_equal(np.asarray(picture), pixels)
    assert mask is not None
    assert np.array_equal(read_mask(mask), label)


def test_hdf5_without_label_is_unlabelled() -> None:
    assert read_hdf5(hdf5(image=np.zeros((3, 8, 8))))[1] is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"nonsense", "no HDF5 file"),
        (hdf5(label=np.zeros((8, 8))), "no HDF5 file with image"),
        (hdf5(image=np.zeros((2, 8, 8)), label=np.zeros((8, 8))), r"image \(2, 8, 8\)"),
        (hdf5(image=np.zeros((3, 8, 8)), label=np.zeros(8)), r"label \(8,\)"),
        (hdf5(image=np.full((3, 8, 8), -1.0), label=np.zeros((8, 8))), "values from -1 to -1"),
        (hdf5(image=np.zeros((3, 0, 8)), label=np.zeros((0, 8))), "a side of 0 pixels"),
    ],
)
def test_hdf5_that_cannot_be_used(data: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read_hdf5(data)
