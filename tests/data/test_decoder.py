"""What a decoding process does with a file: the limits it sets, and the frames it counts."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from fpgm.data import decoder
from fpgm.data.decoder import decode_hdf5, decode_pictures
from fpgm.data.pictures import MAX_PIXELS, Refused
from tests.data.pictures import encoded

PAGES = encoded(Image.new("L", (6, 4)), "TIFF", save_all=True, append_images=[Image.new("L", (50, 30))])


def test_every_frame_gets_the_limits_of_its_own_size() -> None:
    allowed: list[int] = []
    count, *frames = decode_pictures(PAGES, MAX_PIXELS, True, allowed.append)
    assert count == len(frames) == 2 and allowed == [24, 1500]


def test_frames_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MAX_FRAMES", 1)
    with pytest.raises(Refused, match="it has 2 frames; up to 1 are read"):
        list(decode_pictures(PAGES, MAX_PIXELS, True, lambda pixels: None))
    (still,) = decode_pictures(PAGES, MAX_PIXELS, False, lambda pixels: None)
    assert isinstance(still, Image.Image) and still.size == (6, 4)


def test_later_frames_may_not_be_larger_than_allowed() -> None:
    frames = decode_pictures(PAGES, 1000, True, lambda pixels: None)
    assert next(frames) == 2 and isinstance(next(frames), Image.Image)
    with pytest.raises(Refused, match="50 x 30 is over 1,000 pixels"):
        next(frames)


def test_a_chunk_of_an_hdf5_file_is_held_in_memory_as_a_whole(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("image", (4, 4), np.uint8, chunks=(2**14, 2**14), maxshape=(None, None))
    with pytest.raises(Refused, match="16,384 x 16,384 is over"):
        list(decode_hdf5((tmp_path / "a.h5").read_bytes(), MAX_PIXELS))
