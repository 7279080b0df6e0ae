"""Colours of figures: known to colour-blind readers, and of one method everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fpgm.report.plots.style import COLOURS, line_styles
from fpgm.report.reading.paper import METHODS

# What people without one kind of cones see, in linear RGB (Viénot, Brettel and Mollon, 1999).
SEEN = {
    "all cones": np.eye(3),
    "no long-wave cones": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "no middle-wave cones": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}


@pytest.mark.parametrize("eyes", SEEN)
def test_the_first_colours_can_be_told_apart_and_seen_on_white(eyes: str) -> None:
    linear = np.array([to_rgb(colour) for colour in COLOURS[:7]]) ** 2.2
    seen = np.clip(linear @ SEEN[eyes].T, 0, 1) ** (1 / 2.2)
    assert min(np.abs(a - b).max() for a, b in itertools.combinations(seen, 2)) > 0.1
    assert (linear @ (0.2126, 0.7152, 0.0722) < 0.5).all()


def test_a_method_has_the_same_colour_in_every_figure_and_no_two_share_a_line() -> None:
    everything = line_styles(METHODS.values())
    assert len({str(style) for style in everything.values()}) == len(METHODS)
    for method in METHODS.values():
        assert line_styles(["another", method])[method] == everything[method]


def test_variants_of_a_method_have_its_colour_and_other_dashes() -> None:
    plain, first, second = line_styles(["FPGM", "FPGM (gamma=0.1)", "FPGM (gamma=0.2)"]).values()
    assert plain["color"] == first["color"] == second["color"]
    assert len({str(style["linestyle"]) for style in (plain, first, second)}) == 3


def test_a_data_set_has_one_colour_under_both_names_and_other_names_take_the_next() -> None:
    assert line_styles(["Kvasir-SEG"])["Kvasir-SEG"]["color"] == line_styles(["Kvasir"])["Kvasir"]["color"]
    assert [style["color"] for style in line_styles(["a", "b", "c"]).values()] == list(COLOURS[:3])
