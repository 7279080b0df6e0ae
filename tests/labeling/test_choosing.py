"""Which images are chosen, on points drawn by hand and against a search through all sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fpgm.labeling import choosing
from fpgm.labeling.choosing import choose


def left(points: NDArray[np.float64], chosen: tuple[int, ...]) -> float:
    """Mean distance from each point to the nearest chosen one, by a double loop."""
    return float(np.mean([min(np.linalg.norm(one - points[c]) for c in chosen) for one in points]))


def test_the_first_is_the_middle_and_the_next_ones_cover_the_rest() -> None:
    line = np.array([[0.0], [1], [2], [3], [4], [100]])
    assert choose(line, 2) == [2, 5]  # the middle of most, then the one that is far from it
    assert sorted(choose(line, 6)) == list(range(6))


def test_it_is_nearly_as_good_as_the_best_of_all_sets() -> None:
    points = np.random.default_rng(0).normal(size=(14, 3))
    best = min(left(points, chosen) for chosen in combinations(range(14), 4))
    assert best <= left(points, tuple(choose(points, 4))) <= 1.15 * best


def test_what_is_labelled_is_not_asked_for_again() -> None:
    line = np.array([[0.0], [0.1], [10], [10.1], [20]])
    assert choose(line, 1, labeled=[[0.05], [10.05]]) == [4]


def test_a_group_gives_its_second_image_when_all_have_one() -> None:
    line = np.array([[0.0], [5], [10], [10.1], [20]])
    groups = [7, 7, 7, 8, 9]
    assert {groups[i] for i in choose(line, 3, groups=groups)} == {7, 8, 9}
    assert {groups[i] for i in choose(line, 2, groups=groups, labeled=[[50.0]], labeled_groups=[7])} == {8, 9}


def test_near_duplicates_are_taken_once() -> None:
    rng = np.random.default_rng(1)
    scenes = rng.normal(size=(6, 4))
    frames = np.repeat(scenes, 10, axis=0) + 1e-3 * rng.normal(size=(60, 4))
    assert sorted(row // 10 for row in choose(frames, 6)) == list(range(6))


def test_uncertain_ones_count_more() -> None:
    line = np.array([[0.0], [0.1], [0.2], [10], [10.1]])
    assert choose(line, 1)[0] in (0, 1, 2) and choose(line, 1, weights=[0, 0, 0, 1, 1])[0] in (3, 4)


def test_of_many_candidates_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).normal(size=(400, 2))
    whole = left(points, tuple(choose(points, 8)))
    monkeypatch.setattr(choosing, "MOST_TARGETS", 80)
    monkeypatch.setattr(choosing, "_BLOCK", 37)
    assert left(points, tuple(choose(points, 8))) < 1.2 * whole


@pytest.mark.parametrize("count", [0, 4])
def test_a_number_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} images cannot be chosen of 3"):
        choose([[0.0], [1], [2]], count)
