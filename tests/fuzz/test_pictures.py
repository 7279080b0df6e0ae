"""Images and masks of any bytes: a picture comes out, or a word on why not; never anything else."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import example
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from PIL import Image

from fpgm.data.manifest import LeftOut
from fpgm.data.pictures import MAX_SIDE, Refused, prepare_image, read_hdf5, read_mask, read_picture
from fpgm.data.raw.decoding import Input, decode
from fpgm.data.raw.pairs import Pair
from fpgm.data.store import StoredImage
from fpgm.serving.folders.inputs import find_sources, open_frames
from fpgm.serving.folders.predict import predict_files
from fpgm.serving.predictor import Predictor
from tests.data.pictures import disc, encoded
from tests.fuzz.making import fuzz
from tests.fuzz.pictures import ANY, GOOD, MOVING, strip
from tests.serving.making import Red

SUFFIXES = st.sampled_from([".png", ".gif", ".tif", ".jpg", ".webp", ".bmp", ".dat"])
SCRATCH = tempfile.TemporaryDirectory()  # until the tests end


def pages(second: Image.Image) -> bytes:
    return encoded(MOVING[0], "TIFF", save_all=True, append_images=[second])


@fuzz(data=ANY)
@example(data=strip(MAX_SIDE))
@example(data=strip(MAX_SIDE + 1))
def test_a_picture_of_any_bytes(data: bytes) -> None:
    try:
        picture = read_picture(data)
    except Refused as refusal:
        assert refusal.kind and str(refusal)
    else:
        assert picture.mode == "RGB"
        assert prepare_image(picture, 16).shape == (16, 16, 3)


@fuzz(data=ANY, suffix=SUFFIXES)
def test_the_frames_of_any_bytes(data: bytes, suffix: str) -> None:
    path = Path(SCRATCH.name) / f"film{suffix}"
    path.write_bytes(data)
    try:
        moving, pictures = open_frames(path)
        frames = list(pictures)
    except Refused as refusal:
        assert refusal.kind and str(refusal)
    else:
        assert frames and (moving or len(frames) == 1)
        assert all(frame.mode == "RGB" for frame in frames)


@fuzz(files=st.lists(st.tuples(ANY, SUFFIXES), min_size=1, max_size=3))
@example(files=[(strip(MAX_SIDE), ".png")])
@example(files=[(strip(MAX_SIDE + 1), ".png"), (GOOD[1], ".png")])  # JPEG overlays cannot be so wide
@example(files=[(pages(Image.new("L", (MAX_SIDE + 1, 1))), ".tif")])
def test_a_folder_of_any_pictures_is_predicted_to_its_end(files: list[tuple[bytes, str]]) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH.name) as scratch:
        folder, out = Path(scratch, "in"), Path(scratch, "out")
        folder.mkdir()
        for number, (data, suffix) in enumerate(files):
            (folder / f"{number}{suffix}").write_bytes(data)
        named = [str(path) for path in sorted(folder.iterdir())]
        summary = predict_files(Predictor(Red()), find_sources(named), out)
        assert summary.done + len(summary.problems) == len(files)
        assert len(list((out / "masks").rglob("*.png"))) == summary.pictures


LEVELS = st.sampled_from([0, 1, 2, 64, 127, 128, 191, 192, 254, 255])


@fuzz(pixels=arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=LEVELS))
def test_a_mask_of_any_pixels(pixels: NDArray[np.uint8]) -> None:
    try:
        mask = read_mask(Image.fromarray(pixels))
    except Refused as refusal:
        assert refusal.kind in ("mask not binary", "empty mask", "full mask")
    else:
        assert mask.shape == pixels.shape and mask.any() and not mask.all()


@fuzz(image=ANY, mask=st.one_of(ANY, st.just(encoded(Image.fromarray(disc(12, 16, 4))))))
def test_a_pair_of_any_bytes(image: bytes, mask: bytes) -> None:
    paths = Path(SCRATCH.name) / "i.png", Path(SCRATCH.name) / "m.png"
    for path, data in zip(paths, (image, mask), strict=True):
        path.write_bytes(data)
    result = decode(Input(Pair("1", *paths), "i.png", "m.png", "", ""), 16)
    assert isinstance(result, StoredImage | LeftOut)
    assert isinstance(result, StoredImage) or (result.kind and result.file in ("i.png", "m.png"))


def hdf5(**content: object) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as store:
        for name, values in content.items():
            store[name] = values
    return file.getvalue()


NUMBERS = st.sampled_from(["u1", "i2", "u2", "i8", "f2", "f4", "f8", "?", "c16", "S3", "u1,f4"])


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.generic]:
    """An array of any type and shape, mostly near those of an image."""
    kind = np.dtype(draw(NUMBERS))
    shape = draw(st.one_of(st.sampled_from([(3, 8, 9), (8, 9, 3), (8, 9)]), array_shapes(min_dims=0, max_dims=4)))
    return draw(arrays(kind, shape)) if draw(st.booleans()) else np.zeros(shape, kind)


@fuzz(image=tables(), label=st.none() | tables())
@example(image=np.full((8, 9), b"abc"), label=None)
@example(image=np.zeros((8, 9), "u1,f4"), label=None)
@example(image=np.zeros((8, 9), "u1"), label=np.zeros((8, 9), "c16"))
def test_an_hdf5_file_of_any_arrays(image: NDArray[np.generic], label: NDArray[np.generic] | None) -> None:
    data = hdf5(image=image) if label is None else hdf5(image=image, label=label)
    try:
        picture, mask = read_hdf5(data)
    except Refused as refusal:
        assert refusal.kind and str(refusal)
    else:
        assert picture.size in ((9, 8), image.shape[1::-1], image.shape[:0:-1])
        assert (mask is None) == (label is None)


def outside(file: h5py.File, place: Path, how: str) -> None:
    """Make `image` lie in another file."""
    if how == "link":
        file["image"] = h5py.ExternalLink(place.with_suffix(".h5"), "image")
    elif how == "raw":
        file.create_dataset("image", (4, 4, 3), "u1", external=[(place, 0, 48)])
    else:
        layout = h5py.VirtualLayout((4, 4, 3), "u1")
        layout[:] = h5py.VirtualSource(place.with_suffix(".h5"), "image", (4, 4, 3))
        file.create_virtual_dataset("image", layout)


@pytest.mark.parametrize("how", ["link", "raw", "virtual"])
def test_an_hdf5_file_cannot_fetch_another_file_of_this_machine(how: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(48)))
    secret.with_suffix(".h5").write_bytes(hdf5(image=np.zeros((4, 4, 3), np.uint8)))
    with h5py.File(tmp_path / "image.h5", "w") as file:
        outside(file, secret, how)
    with pytest.raises(Refused):
        read_hdf5((tmp_path / "image.h5").read_bytes())
