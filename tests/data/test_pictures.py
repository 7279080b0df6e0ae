"""Pictures of every kind to arrays, against torch, exact fractions and answers written by hand."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image

from fpgm.data import pictures
from fpgm.data.pictures import Refused, prepare_image, prepare_mask, read_hdf5, read_mask, read_picture, to_rgb
from tests.data.pictures import disc, encoded, scene

Array = NDArray[np.generic]


def grey(values: list[list[int]]) -> Image.Image:
    return Image.fromarray(np.array(values, np.uint8))


# ---- images


@pytest.mark.parametrize(("height", "width", "size"), [(301, 400, 64), (64, 64, 64), (33, 50, 64)])
def test_resize_agrees_with_torch(height: int, width: int, size: int) -> None:
    pixels = scene(1, height, width)
    tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
    theirs = torch.nn.functional.interpolate(tensor, (size, size), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    ours = prepare_image(Image.fromarray(pixels), size)
    assert (ours.shape, ours.dtype) == ((size, size, 3), np.uint8)
    assert np.abs(ours - theirs.numpy()).max() <= 1  # each of two passes rounds


def test_a_picture_of_the_right_size_is_unchanged() -> None:
    pixels = scene(2, 32, 32)
    assert np.array_equal(prepare_image(Image.fromarray(pixels), 32), pixels)


@pytest.mark.parametrize("size", [15, 2049, -1])
def test_size_is_checked(size: int) -> None:
    with pytest.raises(ValueError, match="not between 16 and 2048"):
        prepare_image(Image.new("RGB", (4, 4)), size)


# One pixel of each mode and the colour it must become.
MODES: dict[str, tuple[Image.Image, tuple[int, int, int]]] = {
    "grey": (Image.new("L", (1, 1), 77), (77, 77, 77)),
    "bilevel": (Image.new("1", (1, 1), 1), (255, 255, 255)),
    "grey with alpha, half seen on black": (Image.new("LA", (1, 1), (200, 128)), (100, 100, 100)),
    "colour with alpha, not seen": (Image.new("RGBA", (1, 1), (9, 99, 199, 0)), (0, 0, 0)),
    "colour with alpha, seen": (Image.new("RGBA", (1, 1), (9, 99, 199, 255)), (9, 99, 199)),
    "cyan ink": (Image.new("CMYK", (1, 1), (255, 0, 0, 0)), (0, 255, 255)),
    "16 bit": (Image.fromarray(np.array([[65535]], np.uint16)), (255, 255, 255)),
    "16 bit, 10 x 257": (Image.fromarray(np.array([[2570]], np.uint16)), (10, 10, 10)),
    "16 bit that holds 8": (Image.fromarray(np.array([[200]], np.uint16)), (200, 200, 200)),
    "32 bit": (Image.fromarray(np.array([[25700]], np.int32)), (100, 100, 100)),
    "float up to 1": (Image.fromarray(np.array([[0.2]], np.float32)), (51, 51, 51)),
    "float up to 255": (Image.fromarray(np.array([[51.0]], np.float32)), (51, 51, 51)),
}


@pytest.mark.parametrize(("picture", "colour"), MODES.values(), ids=MODES.keys())
def test_convention_modes(picture: Image.Image, colour: tuple[int, int, int]) -> None:
    assert to_rgb(picture).getpixel((0, 0)) == colour
    assert prepare_image(picture, 16)[7, 7].tolist() == list(colour)


@pytest.mark.parametrize("values", [[[-1.0]], [[70000.0]], [[np.nan]]])
def test_numbers_without_a_meaning_are_refused(values: list[list[float]]) -> None:
    with pytest.raises(Refused, match="expected 0 … 1, 0 … 255 or 0 … 65535"):
        to_rgb(Image.fromarray(np.array(values, np.float32)))


# ---- masks

BINARY: dict[str, Image.Image] = {
    "0/255": grey([[0, 255], [0, 0]]),
    "0/1": grey([[0, 1], [0, 0]]),
    "0/128, as a colour table of classes gives": grey([[0, 128], [0, 0]]),
    "bilevel": grey([[0, 255], [0, 0]]).convert("1"),
    "16 bit 0/65535": Image.fromarray(np.array([[0, 65535], [0, 0]], np.uint16)),
    "16 bit 0/255": Image.fromarray(np.array([[0, 255], [0, 0]], np.uint16)),
    "16 bit 0/1": Image.fromarray(np.array([[0, 1], [0, 0]], np.uint16)),
    "float 0/1": Image.fromarray(np.array([[0, 1], [0, 0]], np.float32)),
    "red": Image.fromarray(np.array([[[0, 0, 0], [255, 0, 0]], [[0, 0, 0], [0, 0, 0]]], np.uint8)),
    "green": Image.fromarray(np.array([[[0, 0, 0], [0, 255, 0]], [[0, 0, 0], [0, 0, 0]]], np.uint8)),
    "drawn in alpha": Image.fromarray(
        np.array([[[255] * 3 + [0], [255] * 4], [[255] * 3 + [0], [255] * 3 + [0]]], np.uint8)
    ),
}


@pytest.mark.parametrize("picture", BINARY.values(), ids=BINARY.keys())
def test_convention_what_is_foreground(picture: Image.Image) -> None:
    assert read_mask(picture).tolist() == [[False, True], [False, False]]


def test_convention_threshold_lies_between_127_and_128() -> None:
    values = np.zeros((20, 20), np.uint8)
    values[0, :3] = 127, 128, 255
    values[1:6] = 255
    assert read_mask(Image.fromarray(values))[0, :4].tolist() == [False, True, True, False]


@pytest.mark.parametrize("quality", [50, 75, 95])
@pytest.mark.parametrize("radius", [4, 20, 60])
def test_jpeg_ringing_is_cut_off(quality: int, radius: int) -> None:
    drawn = disc(200, 200, radius)
    read = read_mask(read_picture(encoded(Image.fromarray(drawn), "JPEG", quality=quality)))
    assert (read != (drawn > 0)).mean() < 0.002


def test_colour_coded_jpeg_mask() -> None:
    pixels = np.zeros((120, 160, 3), np.uint8)
    pixels[20:60, 20:60, 0] = 255
    pixels[70:110, 80:140, 1] = 255
    read = read_mask(read_picture(encoded(Image.fromarray(pixels), "JPEG", quality=90)))
    assert (read != pixels.any(axis=2)).mean() < 0.01


REFUSED: dict[str, tuple[Callable[[], Array], str, str]] = {
    "all black": (lambda: np.zeros((8, 8), np.uint8), "empty mask", "largest value is 0"),
    "classes 0, 1, 2": (lambda: np.arange(64).reshape(8, 8) % 3, "empty mask", "largest value is 2"),
    "0/100": (lambda: disc(32, 32, 8) // 255 * 100, "empty mask", "largest value is 100"),
    "all white": (lambda: np.full((8, 8), 255), "full mask", "every pixel"),
    "all one": (lambda: np.ones((8, 8)), "full mask", "every pixel"),
    "a photograph": (lambda: scene(5)[..., 0], "mask not binary", "neither dark nor bright"),
    "a ramp": (lambda: np.tile(np.arange(256), (8, 1)), "mask not binary", "50% of its pixels"),
    "more grey than white": (lambda: np.array([[0] * 96 + [100] * 3 + [255]]), "mask not binary", "3% of its pixels"),
}


@pytest.mark.parametrize(("make", "kind", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_masks(make: Callable[[], Array], kind: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason) as error:
        read_mask(Image.fromarray(np.asarray(make(), np.uint8)))
    assert error.value.kind == kind


def covered(length: int, size: int, bin_: int, cell: int) -> Fraction:
    """Length of a source cell inside a bin of the result."""
    low, high = Fraction(bin_ * length, size), Fraction((bin_ + 1) * length, size)
    return max(min(high, Fraction(cell + 1)) - max(low, Fraction(cell)), Fraction(0))


def naive_areas(mask: NDArray[np.bool_], size: int) -> list[list[int]]:
    """The definition, pixel by pixel, in exact fractions."""
    height, width = mask.shape
    half = Fraction(height * width, 2 * size * size)
    return [
        [
            int(
                sum(covered(height, size, y, i) * covered(width, size, x, j) for i, j in np.argwhere(mask).tolist())
                > half
            )
            for x in range(size)
        ]
        for y in range(size)
    ]


@settings(max_examples=60, deadline=None)
@given(arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))), st.integers(1, 9))
def test_masks_are_resized_by_exact_area(mask: NDArray[np.bool_], size: int) -> None:
    expected = naive_areas(mask, size)
    if np.any(expected):
        assert prepare_mask(mask, size).tolist() == expected
    elif not mask.any():
        assert not prepare_mask(mask, size).any()
    else:
        with pytest.raises(Refused, match="vanish"):
            prepare_mask(mask, size)


def test_wide_sums_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.zeros((3000, 3000), bool)  # 3000 x 3000 x 256 > 2**31
    mask[1500:] = True
    assert prepare_mask(mask, 256).sum() == 256 * 128


def test_convention_half_covered_is_background() -> None:
    mask = np.zeros((4, 8), bool)
    mask[:, :3] = True  # columns 0-1 full, 2-3 half
    assert prepare_mask(mask, 4)[0].tolist() == [1, 0, 0, 0]


def test_a_mask_of_the_right_size_is_unchanged() -> None:
    mask = disc(64, 64, 20) > 0
    assert np.array_equal(prepare_mask(mask, 64), mask)


def test_resizing_keeps_the_share_of_foreground() -> None:
    mask = disc(501, 777, 150) > 0
    assert prepare_mask(mask, 128).mean() == pytest.approx(mask.mean(), rel=0.01)


def test_a_speck_that_vanishes_is_refused() -> None:
    mask = np.zeros((512, 512), bool)
    mask[5, 5] = True
    with pytest.raises(Refused, match="1 foreground pixels vanish at 64 x 64") as error:
        prepare_mask(mask, 64)
    assert error.value.kind == "empty mask"


def test_real_masks_keep_their_share(real_data: Path) -> None:
    for name in ("Kvasir-SEG", "CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB", "CVC-300"):
        for path in sorted((real_data / name / "masks").iterdir())[:5]:
            mask = read_mask(read_picture(path.read_bytes()))
            assert prepare_mask(mask, 256).mean() == pytest.approx(mask.mean(), abs=0.002)


# ---- files of every format, whole and damaged


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


@settings(max_examples=60, deadline=None)
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
    monkeypatch.setattr(pictures, "MAX_PIXELS", 10_100)
    assert read_picture(data).size == (101, 100)
    monkeypatch.setattr(pictures, "MAX_PIXELS", 10_099)
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
