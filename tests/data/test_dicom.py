"""DICOM files of every kind that an endoscope writes, through the decoding process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fpgm.data import dicom as module
from fpgm.data import sandbox
from fpgm.data.dicom import count_frames, decode_dicom
from fpgm.data.pictures import MAX_PIXELS, Refused, count_dicom_frames, prepare_image, read_dicom, read_mask
from fpgm.data.raw.groups import set_groups
from fpgm.data.raw.layouts import own_folders
from fpgm.data.raw.prepare import prepare
from fpgm.data.store import Store
from tests.data.dicoms import JPEG, PATIENT, dicom, full_colours, half_colours
from tests.data.pictures import disc, save, scene

VIDEO = np.stack([scene(number) for number in range(3)])  # (3, 48, 64, 3)


def frames(data: bytes, *numbers: int) -> list[np.ndarray]:
    return [np.asarray(picture) for picture in read_dicom(data, numbers or (0,))]


def test_colours_that_are_not_packed() -> None:
    (picture,) = frames(dicom(VIDEO[:1]))
    assert np.array_equal(picture, VIDEO[0])
    (picture,) = frames(dicom(full_colours(VIDEO[:1]), "YBR_FULL"))
    assert np.abs(picture.astype(int) - VIDEO[0]).max() <= 3  # rounded twice


def test_colours_of_which_every_second_is_kept() -> None:
    grey = np.repeat(VIDEO[:1, ..., :1], 3, axis=-1)  # without colours nothing is lost
    data = dicom(grey, "YBR_FULL_422", PixelData=half_colours(grey).tobytes())
    (picture,) = frames(data)
    assert np.abs(picture.astype(int) - grey[0]).max() <= 2


def test_jpeg_inside() -> None:
    pictures = frames(dicom(VIDEO, "YBR_FULL_422", syntax=JPEG), 0, 2)
    assert [np.abs(one.astype(int) - VIDEO[k]).mean() < 3 for one, k in zip(pictures, (0, 2), strict=True)] == [
        True
    ] * 2


def test_frames_are_counted_and_chosen() -> None:
    data = dicom(VIDEO)
    assert (count_dicom_frames(data), count_dicom_frames(dicom(VIDEO[:1]))) == (3, 1)
    assert all(np.array_equal(one, VIDEO[k]) for one, k in zip(frames(data, 2, 0), (2, 0), strict=True))


@pytest.mark.parametrize(("bits", "factor"), [(8, 1), (12, 16), (16, 256)])
def test_grey_is_expanded(bits: int, factor: int) -> None:
    grey = VIDEO[:1, ..., 0]
    (picture,) = read_dicom(
        dicom((grey.astype(np.uint16) * factor).astype(f"u{1 if bits == 8 else 2}"), "MONOCHROME2", bits)
    )
    assert np.array_equal(np.asarray(picture), grey[0])
    assert prepare_image(picture, 32).shape == (32, 32, 3)


def test_grey_that_is_inverted() -> None:
    (picture,) = frames(dicom(255 - VIDEO[:1, ..., 0], "MONOCHROME1"))
    assert np.array_equal(picture, VIDEO[0, ..., 0])


def test_a_mask() -> None:
    (picture,) = read_dicom(dicom(disc()[None], "MONOCHROME2"))
    assert np.array_equal(read_mask(picture), disc() > 0)


BAD = {
    "text": (b"hello", "cannot be read as DICOM"),
    "other colours": (dicom(VIDEO[:1, ..., 0], "PALETTE COLOR"), "colours of another kind; read are RGB"),
    "packed in an unknown way": (dicom(VIDEO[:1], syntax="1.2.840.10008.1.2.4.80"), "save it uncompressed"),
    "cut": (dicom(VIDEO[:1])[:-5000], "cannot be"),
    "too large": (dicom(VIDEO[:1], Rows=60000, Columns=60000), "over 67,108,864 pixels"),
    "too many frames": (dicom(VIDEO[:1], NumberOfFrames=20_000), "20,000 frames; 1 to 10,000 are read"),
    "fewer frames than asked for": (dicom(VIDEO[:1]), "it has 1 frames, and frame 10 is asked for"),
}


@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_is_refused_without_a_word_of_its_tags(data: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words) as error:
        list(read_dicom(data, [9 if "asked" in words else 0]))
    assert "Doe" not in str(error.value)


def test_every_frame_gets_the_limits_of_its_size() -> None:
    allowed: list[int] = []
    assert len(list(decode_dicom(dicom(VIDEO), MAX_PIXELS, [0, 1], allowed.append))) == 2
    assert allowed == [48 * 64] * 2


def test_it_is_decoded_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "decode_dicom", lambda *_: pytest.fail("decoded here"))
    sandbox.stop_decoders()
    frames(dicom(VIDEO[:1]))
    assert len(sandbox._idle) == 1


def test_without_pydicom_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(Refused, match=r"needs pydicom: pip install 'fpgm\[dicom\]'"):
        count_frames(b"")


def test_a_store_of_dicom_files_holds_nothing_of_the_patient(tmp_path: Path) -> None:
    (tmp_path / "i").mkdir()
    (tmp_path / "i/video.dcm").write_bytes(dicom(VIDEO, SeriesDescription="secret"))
    (tmp_path / "i/still.dcm").write_bytes(dicom(VIDEO[:1]))
    for name in ("video-0001", "video-0003", "still"):
        save(disc(), tmp_path / f"m/{name}.png")
    found = own_folders("mine", tmp_path / "i", tmp_path / "m")
    outcome = prepare(found, tmp_path / "store", 32)
    store = Store.open(tmp_path / "store/mine")
    assert store.ids == ("still", "video-0001", "video-0003")
    expected = Image.fromarray(VIDEO[2]).resize((32, 32), Image.Resampling.BILINEAR)
    assert np.array_equal(store.images([2])[0], np.asarray(expected))
    assert [row.group for row in store.manifest.images] == [None, "video", "video"]  # frames of one file stay together
    assert [(p.kind, p.file) for p in outcome.problems] == [("missing mask", "images/video.dcm")]  # of frame 2
    files = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert PATIENT.encode() not in files and b"12345" not in json.dumps(outcome.problems[0].reason).encode()
    assert b"secret" not in files and b"Jane" not in files


def test_a_broken_file_of_many_frames_is_said_once_and_frames_keep_their_file_as_group(tmp_path: Path) -> None:
    (tmp_path / "p1").mkdir()
    (tmp_path / "broken.dcm").write_bytes(dicom(VIDEO)[:-20_000])
    (tmp_path / "video.dcm").write_bytes(dicom(VIDEO))
    (tmp_path / "p1/video.dcm").write_bytes(dicom(np.stack([scene(number) for number in range(20)])))
    (found,), grouping = set_groups([own_folders("mine", unlabeled=tmp_path)], "folder")
    outcome = prepare(found, tmp_path / "store", 32)
    assert outcome.manifest and len(outcome.manifest.images) == 23
    assert {(row.id.rpartition("-")[0], row.group) for row in outcome.manifest.images} == {
        ("video", "video"),
        ("p1/video", "p1"),
    }
    assert [problem.file for problem in outcome.problems] == ["unlabeled/broken.dcm"]
    assert grouping.without == ()
