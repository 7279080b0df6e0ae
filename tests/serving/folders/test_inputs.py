"""Files, folders, patterns and moving pictures; names that never meet."""

from __future__ import annotations

import io
import os
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fpgm.data.pictures import Refused
from fpgm.serving.folders.inputs import Source, claims, distinct, find_sources, open_frames
from tests.data.pictures import scan_bomb, tile_bomb

SHADES = [0, 90, 180]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


def names(found: list[Source]) -> list[str]:
    return [source.name for source in found]


def still(shade: int, size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.new("RGB", size, (shade, shade, shade))


def test_a_folder_gives_what_is_below_it_by_name(tmp_path: Path) -> None:
    write(tmp_path, "b.JPG", "a/2.png", "a/1.png", "notes.txt", ".hidden.png", ".cache/x.png", "film.mp4", "x.y.tif")
    assert names(find_sources([str(tmp_path)])) == ["a/1", "a/2", "b", "film", "x.y"]


def test_files_are_taken_whatever_they_are_called(tmp_path: Path) -> None:
    write(tmp_path, "scan.dat", "a/[1].png")
    given = [str(tmp_path / "scan.dat"), str(tmp_path / "a" / "[1].png")]  # a name, not a pattern: it is there
    assert names(find_sources(given)) == ["scan", "[1]"]


def test_patterns_keep_the_folders_after_their_fixed_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "in/a/1.png", "in/b/1.png", "in/b/1.txt", "in/2.png")
    assert names(find_sources([str(tmp_path / "in" / "**" / "*.png")])) == ["2", "a/1", "b/1"]
    assert names(find_sources([str(tmp_path / "in" / "?")])) == ["a/1", "b/1"]  # folders that match
    monkeypatch.chdir(tmp_path)
    assert find_sources(["in/*/1.png"]) == [Source(Path("in/a/1.png"), "a/1"), Source(Path("in/b/1.png"), "b/1")]


def test_a_file_given_twice_is_taken_once(tmp_path: Path) -> None:
    write(tmp_path, "in/a.png")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    given = [str(tmp_path / "in" / "a.png"), str(tmp_path / "in"), str(tmp_path / "link"), f"{tmp_path}/i*/*.png"]
    assert len(find_sources(given)) == 1


def test_what_will_be_written_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "a.png", "masks/a.png", "overlays/sub/a.jpg")
    barred = [tmp_path / "masks", tmp_path / "overlays"]
    assert names(find_sources([str(tmp_path)], barred)) == ["a"]
    with pytest.raises(FileNotFoundError, match="holds no picture"):
        find_sources([str(tmp_path / "masks")], barred)


@pytest.mark.parametrize(
    ("given", "message"),
    [("none.png", "no file or folder none.png"), ("*.png", r"nothing matches \*\.png"), ("in", "in holds no picture")],
)
def test_nothing_is_an_error(given: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "in/notes.txt")
    with pytest.raises(FileNotFoundError, match=message):
        find_sources([given])


def test_names_that_meet_get_their_suffix_then_a_number() -> None:
    taken: set[str] = set()
    chosen = []
    for path in ("a.png", "a.jpg", "x/a.png", "y/a.jpg", "A.bmp"):
        chosen.append(distinct(Source(Path(path), Path(path).stem), taken))
        taken |= claims(chosen[-1])
    # A.bmp meets a.png on disks that do not tell capitals from small letters
    assert chosen == ["a", "a.jpg", "a.png", "a-2", "A.bmp"]


PARTS = st.lists(st.sampled_from(["a", "A", "b", "1", "a-2", "a.png"]), min_size=1, max_size=3)


def test_a_name_in_a_folder_that_is_taken_leaves_the_folder() -> None:
    assert distinct(Source(Path("x/a/b.png"), "a/b"), claims("a")) == "a_b-2"


@given(st.lists(st.tuples(PARTS, st.sampled_from([".png", ".jpg", ".gif"])), max_size=12))
def test_no_name_is_another_or_a_folder_of_it(given: list[tuple[list[str], str]]) -> None:
    taken: set[str] = set()
    chosen: list[PurePosixPath] = []
    for parts, suffix in given:
        name = distinct(Source(Path("/".join(parts) + suffix), "/".join(parts)), taken)
        taken |= claims(name)
        low = PurePosixPath(name.lower())
        assert not any(low == other or low in other.parents or other in low.parents for other in chosen)
        chosen.append(low)


@pytest.mark.parametrize(("suffix", "close"), [(".gif", 0), (".tif", 0), (".webp", 3), (".png", 0)])
def test_moving_pictures_give_every_frame(suffix: str, close: int, tmp_path: Path) -> None:
    path = tmp_path / f"film{suffix}"
    first, *rest = map(still, SHADES)
    first.save(path, save_all=True, append_images=rest, **({"lossless": True} if suffix == ".webp" else {}))
    moving, pictures = open_frames(path)
    found = list(pictures)
    assert moving and [picture.size for picture in found] == [(6, 4)] * 3
    assert all(picture.mode == "RGB" for picture in found)
    assert np.allclose([np.asarray(picture).mean() for picture in found], SHADES, atol=close)


def test_pages_of_a_tiff_may_differ_in_size(tmp_path: Path) -> None:
    still(0).save(tmp_path / "a.tif", save_all=True, append_images=[still(9, (5, 9))])
    assert [picture.size for picture in open_frames(tmp_path / "a.tif").pictures] == [(6, 4), (5, 9)]


@pytest.mark.parametrize("suffix", [".gif", ".tif", ".webp", ".png", ".jpg", ".bmp"])
def test_a_single_frame_does_not_move(suffix: str, tmp_path: Path) -> None:
    still(90).save(tmp_path / f"a{suffix}")
    moving, pictures = open_frames(tmp_path / f"a{suffix}")
    assert not moving and [picture.size for picture in pictures] == [(6, 4)]


def test_a_photo_with_a_preview_inside_is_one_picture(tmp_path: Path) -> None:
    still(90).save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[still(1)])
    assert not open_frames(tmp_path / "a.jpg").moving


def test_a_damaged_frame_is_refused_with_its_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)) for _ in range(3)]
    frames[0].save(data := io.BytesIO(), "GIF", save_all=True, append_images=frames[1:])
    path = tmp_path / "cut.gif"
    path.write_bytes(data.getvalue()[: len(data.getvalue()) * 5 // 6])
    with pytest.raises(Refused, match="frame 3 cannot be decoded"):
        list(open_frames(path).pictures)


@pytest.mark.parametrize("content", [b"", b"hello", b"GIF89a"])
def test_what_is_no_picture_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_bytes(content)
    with pytest.raises(Refused):
        open_frames(tmp_path / "a.gif")


def test_videos_move_and_are_refused_when_they_are_read(tmp_path: Path) -> None:
    write(tmp_path, "film.MP4")
    moving, pictures = open_frames(tmp_path / "film.MP4")
    assert moving
    with pytest.raises(Refused):  # empty, or no OpenCV
        next(pictures)


@pytest.mark.parametrize(("data", "words"), [(scan_bomb(1000), "1000 scans"), (tile_bomb(46336), "46,336 x 46,336")])
def test_a_file_that_costs_too_much_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(Refused, match=words):
        open_frames(tmp_path / "a.jpg")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="is not a regular file"):
        find_sources([str(tmp_path / "a.png")])
    with pytest.raises(Refused, match="not a regular file"):
        open_frames(tmp_path / "a.png")


def test_the_frames_of_a_dicom_file(tmp_path: Path) -> None:
    from tests.data.dicoms import dicom

    frames = np.array([np.asarray(still(shade)) for shade in SHADES])
    (tmp_path / "film.dcm").write_bytes(dicom(frames))
    (tmp_path / "grey.DCM").write_bytes(dicom(frames[1:2, ..., 0], "MONOCHROME2"))
    assert names(find_sources([str(tmp_path)])) == ["film", "grey"]
    moving, pictures = open_frames(tmp_path / "film.dcm")
    assert moving and [np.asarray(picture).tolist() for picture in pictures] == frames.tolist()
    moving, pictures = open_frames(tmp_path / "grey.DCM")
    (picture,) = pictures
    assert not moving and picture.mode == "RGB" and np.asarray(picture).tolist() == frames[1].tolist()


def test_a_damaged_dicom_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pydicom", reason="DICOM files need pydicom, the extra dicom")
    (tmp_path / "bad.dcm").write_bytes(b"not a file of this kind")
    with pytest.raises(Refused, match="it cannot be read as DICOM"):
        open_frames(tmp_path / "bad.dcm")
