"""Every kind of bad pair, from real files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from fpgm.data.fingerprint import dhash
from fpgm.data.manifest import LeftOut
from fpgm.data.pictures import MAX_BYTES
from fpgm.data.raw.decoding import Input, decode
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import StoredImage
from tests.data.pictures import disc, save, scan_bomb, scene, tile_bomb


def pair(folder: Path, image: str = "i/1.png", mask: str | None = "m/1.png") -> Input:
    paths = Pair("1", folder / image, folder / mask if mask else None)
    return Input(paths, image, mask, "a" * 64, "b" * 64 if mask else None)


def good(folder: Path) -> Input:
    save(scene(1), folder / "i/1.png")
    save(disc(), folder / "m/1.png")
    return pair(folder)


def test_a_good_pair(tmp_path: Path) -> None:
    record = decode(good(tmp_path), 32)
    assert isinstance(record, StoredImage)
    assert (record.image.shape, record.image.dtype) == ((32, 32, 3), np.uint8)
    assert record.mask is not None
    assert set(np.unique(record.mask)) == {0, 1}
    share = round(float((disc() > 0).mean()), 6)  # of the source
    assert record.row == ("1", "i/1.png", "m/1.png", "a" * 64, "b" * 64, 64, 48, share, None, None)
    assert record.dhash == dhash(Image.fromarray(scene(1)))


def test_an_unlabelled_image_opens_no_mask(tmp_path: Path) -> None:
    save(scene(1), tmp_path / "i/1.png")
    record = decode(pair(tmp_path, mask=None), 32)
    assert isinstance(record, StoredImage)
    assert (record.mask, record.row.mask, record.row.foreground) == (None, None, None)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.png")


def tall(path: Path) -> None:
    save(disc(64, 48), path)


# kind, which file is named, what is done to it
BAD: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "image is text": ("unreadable", "i/1.png", lambda p: p.write_text("no picture")),
    "image is empty": ("empty file", "i/1.png", lambda p: p.write_bytes(b"")),
    "image is cut": ("truncated", "i/1.png", cut),
    "image is gone": ("unreadable", "i/1.png", Path.unlink),
    "image is a dangling link": ("unreadable", "i/1.png", link),
    "image is a bomb": ("too large", "i/1.png", lambda p: Image.new("1", (10_000, 8_000)).save(p)),
    "mask is text": ("unreadable", "m/1.png", lambda p: p.write_text("no picture")),
    "mask is gone": ("unreadable", "m/1.png", Path.unlink),
    "mask is turned": ("mis-sized mask", "m/1.png", tall),
    "mask is one pixel short": ("mis-sized mask", "m/1.png", lambda p: save(disc(47, 64), p)),
    "mask is the image": ("mask not binary", "m/1.png", lambda p: save(scene(1), p)),
    "mask is black": ("empty mask", "m/1.png", lambda p: save(0 * disc(), p)),
    "mask vanishes": ("empty mask", "m/1.png", lambda p: save(disc(radius=1), p)),
    "mask is white": ("full mask", "m/1.png", lambda p: save(0 * disc() + 255, p)),
}


@pytest.mark.parametrize(("kind", "file", "spoil"), BAD.values(), ids=BAD.keys())
def test_bad_pair(tmp_path: Path, kind: str, file: str, spoil: Callable[[Path], object]) -> None:
    item = good(tmp_path)
    spoil(tmp_path / file)
    problem = decode(item, 16)
    assert isinstance(problem, LeftOut)
    assert (problem.kind, problem.file) == (kind, file)
    assert str(tmp_path) not in problem.reason  # nothing of this machine goes into a manifest


def test_sizes_are_named(tmp_path: Path) -> None:
    item = good(tmp_path)
    tall(tmp_path / "m/1.png")
    problem = decode(item, 16)
    assert isinstance(problem, LeftOut)
    assert problem.reason == "the mask is 48 x 64, its image 64 x 48"


def test_size_must_make_sense_and_is_no_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not between"):
        decode(good(tmp_path), 4)


def hdf5(path: Path, **arrays: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def test_hdf5_pair(tmp_path: Path) -> None:
    pixels, label = scene(2, 32, 32), (disc(32, 32, 8) > 0).astype(np.uint8)
    hdf5(tmp_path / "1.h5", image=(pixels / 255).astype(np.float32).transpose(2, 0, 1), label=label)
    record = decode(pair(tmp_path, "1.h5", "1.h5"), 32)
    assert isinstance(record, StoredImage)
    assert np.array_equal(record.image, pixels)
    assert np.array_equal(record.mask, label)


def test_hdf5_without_label(tmp_path: Path) -> None:
    hdf5(tmp_path / "1.h5", image=np.zeros((3, 32, 32)))
    problem = decode(pair(tmp_path, "1.h5", "1.h5"), 32)
    assert isinstance(problem, LeftOut)
    assert (problem.kind, problem.file) == ("missing mask", "1.h5")


@pytest.mark.parametrize(("data", "words"), [(scan_bomb(1000), "1000 scans"), (tile_bomb(46336), "46,336 x 46,336")])
def test_a_file_that_costs_too_much_is_left_out(data: bytes, words: str, tmp_path: Path) -> None:
    item = good(tmp_path)
    item.pair.image.write_bytes(data)
    left = decode(item, 32)
    assert isinstance(left, LeftOut) and left.kind == "too costly" and words in left.reason


def test_a_pipe_and_a_file_that_is_far_too_large_are_left_out(tmp_path: Path) -> None:
    item = good(tmp_path)
    with item.pair.image.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    left = decode(item, 32)
    assert isinstance(left, LeftOut) and left.kind == "too large"
    item.pair.image.unlink()
    os.mkfifo(item.pair.image)
    left = decode(item, 32)
    assert isinstance(left, LeftOut) and left.reason == "it is not a regular file"
