"""Decode one image and its mask to arrays, or say why they are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from fpgm.data.fingerprint import dhash
from fpgm.data.manifest import ImageRow, LeftOut
from fpgm.data.pictures import (
    DICOM,
    Refused,
    check_mask_size,
    prepare_image,
    prepare_mask,
    read_dicom,
    read_hdf5,
    read_mask,
    read_picture,
    read_picture_file,
    read_prepared_image,
    read_prepared_mask,
)
from fpgm.data.raw.pairs import Pair
from fpgm.data.raw.walk import HDF5
from fpgm.data.store import StoredImage

_FRAMES = 16  # of one file that are decoded at a time


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


def decode_run(items: Sequence[Input], size: int, keep_empty: bool = False) -> list[StoredImage | LeftOut]:
    """Prepare the images of one file, which is opened once: several of them are frames of it."""
    if items[0].pair.frame is None:
        return [decode(item, size, keep_empty) for item in items]
    frames = _frames(items)
    return [decode(item, size, keep_empty, frame) for item, frame in zip(items, frames, strict=True)]


def decode(
    item: Input, size: int, keep_empty: bool = False, opened: Image.Image | LeftOut | None = None
) -> StoredImage | LeftOut:
    """Prepare one image and its mask at S x S, or say why they are left out.

    Args:
        item: the image.
        size: S.
        keep_empty: whether an empty mask is that of a frame without polyps.
        opened: the picture, if it was decoded already, or the reason why it could not be.
    """
    if isinstance(opened, LeftOut):
        return opened
    pair, file = item.pair, item.image
    try:
        if opened is None and _are_pictures(pair):
            image_file = read_prepared_image(read_picture_file(pair.image), size)
            row = ImageRow(pair.id, *item[1:], *image_file.source, None, pair.group, pair.part)
            if pair.mask is None:
                return StoredImage(row, image_file.pixels, None, image_file.dhash)
            file = item.mask or item.image
            mask_file = read_prepared_mask(read_picture_file(pair.mask), size, image_file.source, keep_empty)
            row = row._replace(foreground=mask_file.foreground)
            return StoredImage(row, image_file.pixels, mask_file.pixels, image_file.dhash)
        picture, label = (opened, None) if opened else _open(pair.image, pair.frame)
        image = prepare_image(picture, size)
        row = ImageRow(pair.id, *item[1:], *picture.size, None, pair.group, pair.part)
        if pair.mask is None:
            return StoredImage(row, image, None, dhash(picture))
        file = item.mask or item.image
        if (pair.mask, pair.mask_frame) != (pair.image, pair.frame):
            label, _ = _open(pair.mask, pair.mask_frame)
        mask = read_mask(_checked(label, picture), keep_empty)
        row = row._replace(foreground=round(float(mask.mean()), 6))
        return StoredImage(row, image, prepare_mask(mask, size), dhash(picture))
    except Refused as refusal:
        return LeftOut(refusal.kind, file, str(refusal))
    except OSError as error:
        return LeftOut("unreadable", file, f"cannot be opened: {error.strerror}")


def runs(items: Iterable[Input]) -> list[list[Input]]:
    """Put neighbours together that are frames of one file, a few at a time; others stay alone."""
    found: list[list[Input]] = []
    for item in items:
        last = found[-1] if found else []
        same = last and item.pair.frame is not None and last[-1].pair.image == item.pair.image
        if same and len(last) < _FRAMES:
            last.append(item)
        else:
            found.append([item])
    return found


def _frames(items: Sequence[Input]) -> Iterator[Image.Image | LeftOut]:
    """Decode the frames of a file; the first that fails ends it, and the others fail with it."""
    numbers = [item.pair.frame or 0 for item in items]
    done = 0
    try:
        for picture in read_dicom(read_picture_file(items[0].pair.image), numbers):
            yield picture
            done += 1
        return
    except Refused as refusal:
        problem = LeftOut(refusal.kind, items[0].image, str(refusal))
    except OSError as error:
        problem = LeftOut("unreadable", items[0].image, f"cannot be opened: {error.strerror}")
    for _ in items[done:]:
        yield problem


def _are_pictures(pair: Pair) -> bool:
    """Whether image and mask are picture files of their own, which the decoding process prepares itself."""
    paths = [pair.image] if pair.mask is None else [pair.image, pair.mask]
    return pair.mask != pair.image and not any(path.suffix.casefold() in DICOM | HDF5 for path in paths)


def _open(path: Path, frame: int | None) -> tuple[Image.Image, Image.Image | None]:
    """Read a picture; an HDF5 file can contain its mask."""
    data, suffix = read_picture_file(path), path.suffix.casefold()
    if suffix in DICOM:
        (picture,) = read_dicom(data, [frame or 0])
        return picture, None
    return read_hdf5(data) if suffix in HDF5 else (read_picture(data), None)


def _checked(label: Image.Image | None, picture: Image.Image) -> Image.Image:
    if label is None:
        raise Refused("missing mask", "the file holds no label")
    check_mask_size(label.size, picture.size)
    return label
