"""Details of images: counts by size, frames without a polyp, and the file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from fpgm.calibration import BINS, calibration_error, reliability
from fpgm.runs.details import (
    EmptyFrames,
    ImageDetails,
    SizeCount,
    count_by_size,
    count_empty_frames,
    expected_calibration_error,
    read_details,
    size_of,
    write_details,
)


def image(
    polyps: tuple[tuple[int, int], ...] = (), alarms: tuple[int, ...] = (), group: str | None = None
) -> ImageDetails:
    """An image of 1,000 pixels, all certain background."""
    return ImageDetails(group, polyps, alarms, (1000, *[0] * (BINS - 1)), (0,) * BINS, (0.0,) * BINS)


def test_convention_sizes_are_shares_of_the_image() -> None:
    sizes = {pixels: size_of(pixels, 1000) for pixels in (1, 9, 10, 49, 50, 1000)}
    assert list(sizes.values()) == ["small", "small", "medium", "medium", "large", "large"]


def test_polyps_and_false_alarms_are_counted_by_their_size() -> None:
    details = [image(((9, 0), (20, 1)), (5, 60)), image(((9, 9), (300, 0))), image(alarms=(10,))]
    assert count_by_size(details) == {
        "small": SizeCount(polyps=2, missed=1, alarms=1),
        "medium": SizeCount(polyps=1, missed=0, alarms=1),
        "large": SizeCount(polyps=1, missed=1, alarms=1),
    }


def test_false_alarms_per_frame_are_those_on_frames_without_a_polyp() -> None:
    empty = count_empty_frames([image(((9, 0),), (5, 5)), image(), image(alarms=(3, 4, 5)), image(alarms=(1,))])
    assert empty == EmptyFrames(frames=3, alarmed=2, alarms=4) and empty.rate == pytest.approx(4 / 3)
    assert count_empty_frames([image(((9, 9),), (5,))]).rate is None  # not 0


def test_the_calibration_of_a_set_is_that_of_all_its_pixels() -> None:
    rng = np.random.default_rng(0)
    planes, truths = rng.random((3, 50), np.float32), rng.random((3, 50)) < 0.3
    details = []
    for plane, truth in zip(planes, truths, strict=True):
        counts = reliability(plane, truth)
        details.append(image()._replace(**{key: tuple(value.tolist()) for key, value in counts._asdict().items()}))
    expected = calibration_error(reliability(planes, truths))
    assert expected_calibration_error(details) == pytest.approx(expected)


def test_the_file_comes_back_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clinic.details.json"
    details = (image(((9, 2),), (4,), "Müller, video 1"), image())
    write_details(path, details)
    whole = path.read_bytes()
    sha256 = hashlib.sha256(whole).hexdigest()
    assert read_details(path, images=2, sha256=sha256) == details
    with pytest.raises(ValueError, match="is of 2 images, but there were 3"):
        read_details(path, images=3, sha256=sha256)
    path.write_bytes(whole.replace(b"[9,2]", b"[9,3]"))
    with pytest.raises(ValueError, match="is not the file that was written"):
        read_details(path, images=2, sha256=sha256)
    changed = whole.replace(b"[9,2]", b"[9,-3]")
    path.write_bytes(changed)
    with pytest.raises(ValueError, match=r"images\.0\.1.* greater than or equal to 0"):
        read_details(path, images=2, sha256=hashlib.sha256(changed).hexdigest())
