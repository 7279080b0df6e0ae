"""Small pictures and masks for tests."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def disc(height: int = 48, width: int = 64, radius: int = 12) -> NDArray[np.uint8]:
    """A mask in {0, 255} with a disc in the middle."""
    y, x = np.ogrid[:height, :width]
    return (255 * ((y - height // 2) ** 2 + (x - width // 2) ** 2 < radius**2)).astype(np.uint8)


def scene(seed: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """A smooth colour picture."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def save(pixels: NDArray[np.uint8], path: Path, **options: object) -> Path:
    """Write pixels to a file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def bundle(folder: Path, count: int, first: int = 1) -> Path:
    """Write images/N.png and masks/N.png."""
    for number in range(first, first + count):
        save(scene(number), folder / "images" / f"{number}.png")
        save(disc(radius=8 + number % 9), folder / "masks" / f"{number}.png")
    return folder


def touch(root: Path, *names: str) -> None:
    """Make empty files, and their folders."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def encoded(picture: Image.Image, format: str = "PNG", **options: object) -> bytes:
    """Return the bytes of a picture file."""
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def scan_bomb(scans: int, width: int = 64, height: int = 48) -> bytes:
    """A progressive JPEG whose last scan is repeated: each costs the decoder a pass over the whole picture."""
    good = encoded(Image.new("RGB", (width, height), "gray"), "JPEG", progressive=True)
    start = good.rindex(b"\xff\xda")
    return good[:start] + good[start:-2] * (scans - good.count(b"\xff\xda") + 1) + good[-2:]


def tile_bomb(side: int) -> bytes:
    """A TIFF of 16 x 16 pixels in one tile of side x side."""
    packed = zlib.compress(bytes(768), 9)
    tags = [
        *((256, 4, 16), (257, 4, 16), (258, 3, 8), (259, 3, 8), (262, 3, 2), (277, 3, 3)),
        *((322, 4, side), (323, 4, side), (324, 4, 8), (325, 4, len(packed))),
    ]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    place = 8 + len(packed)
    return b"II*\0" + struct.pack("<I", place) + packed + struct.pack("<H", len(tags)) + entries + bytes(4)
