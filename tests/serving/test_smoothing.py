"""Smoothing over frames: a weighted mean written out, the frame rate, and both ends."""

from __future__ import annotations

import numpy as np
import pytest

from fpgm.serving.smoothing import Smoother, past_share


def plane(value: float, size: int = 2) -> np.ndarray:
    return np.full((size, size), value, np.float32)


def test_it_is_the_mean_of_the_past_with_weights_that_halve() -> None:
    times, values = [0.0, 0.5, 0.6, 2.0], [0.9, 0.1, 0.4, 0.8]
    smooth = Smoother(0.5)
    found = [float(smooth(plane(value), time)[0, 0]) for time, value in zip(times, values, strict=True)]
    for last in range(4):
        expected = values[0]
        for k in range(1, last + 1):
            kept = 2 ** -((times[k] - times[k - 1]) / 0.5)
            expected = kept * expected + (1 - kept) * values[k]
        assert found[last] == pytest.approx(expected, abs=1e-6)


def test_a_steady_scene_fades_alike_at_any_frame_rate() -> None:
    ends = []
    for rate in (10, 50):
        smooth = Smoother(0.2)
        smooth(plane(1), 0)
        for frame in range(1, rate + 1):
            last = smooth(plane(0), frame / rate)
        ends.append(float(last[0, 0]))
    assert ends[0] == pytest.approx(ends[1]) == pytest.approx(2**-5)  # five half-lives


def test_no_half_life_leaves_frames_alone_and_another_size_begins_anew() -> None:
    assert past_share(0.04, 0) == 0
    smooth = Smoother(0)
    smooth(plane(1), 0)
    assert smooth(plane(0.3), 0.04)[0, 0] == np.float32(0.3)
    smooth = Smoother(9)
    smooth(plane(1), 0)
    assert (smooth(plane(0, 3), 0.04) == 0).all()


@pytest.mark.parametrize("seconds", [-1, 61, float("nan")])
def test_other_half_lives_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds after which a frame counts half, from 0 to 60"):
        Smoother(seconds)
