"""Small pictures and masks for tests."""

from __future__ import annotations

import io
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
