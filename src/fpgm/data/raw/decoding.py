"""Decode one image and its mask to arrays, or say why they are left out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from fpgm.data.fingerprint import dhash
from fpgm.data.manifest import ImageRow, LeftOut
from fpgm.data.pictures import (
    Refused,
    prepare_image,
    prepare_mask,
    read_hdf5,
    read_mask,
    read_picture,
    read_picture_file,
)
from fpgm.data.raw.layouts import HDF5
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import StoredImage


class Input(NamedTuple):
    """A pair with the names and SHA-256 of its files; None where there is no mask, "" where a file is unreadable."""

    pair: Pair
    image: str
    mask: str | None
    image_sha256: str
    mask_sha256: str | None

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Key that an already prepared image must have to be reused."""
        return self.pair.id, self.image_sha256, self.mask_sha256


def decode(item: Input, size: int) -> StoredImage | LeftOut:
    """Prepare one image and its mask at S x S, or say why they are left out."""
    file = item.image
    try:
        picture, label = _open(item.pair.image)
        image = prepare_image(picture, size)
        row = ImageRow(item.pair.id, *item[1:], *picture.size, None)
        if item.pair.mask is None:
            return StoredImage(row, image, None, dhash(picture))
        file = item.mask or item.image
        if item.pair.mask != item.pair.image:
            label, _ = _open(item.pair.mask)
        mask = read_mask(_checked(label, picture))
        row = row._replace(foreground=round(float(mask.mean()), 6))
        return StoredImage(row, image, prepare_mask(mask, size), dhash(picture))
    except Refused as refusal:
        return LeftOut(refusal.kind, file, str(refusal))
    except OSError as error:
        return LeftOut("unreadable", file, f"cannot be opened: {error.strerror}")


def _open(path: Path) -> tuple[Image.Image, Image.Image | None]:
    """Read a picture; an HDF5 file can contain its mask."""
    data = read_picture_file(path)
    return read_hdf5(data) if path.suffix.casefold() in HDF5 else (read_picture(data), None)


def _checked(label: Image.Image | None, picture: Image.Image) -> Image.Image:
    if label is None:
        raise Refused("missing mask", "the file holds no label")
    if label.size != picture.size:
        sizes = f"{label.width} x {label.height}, its image {picture.width} x {picture.height}"
        raise Refused("mis-sized mask", f"the mask is {sizes}")
    return label
