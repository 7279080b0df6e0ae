"""What is said of a site, and when a change is called large."""

from __future__ import annotations

from fpgm.runs.card import Site, Statistics
from fpgm.runs.site import describe_frames, describe_site, summarise_statistics, warn_of_site

SITE = Site(
    folder="b",
    frames=64,
    sha256="1",
    base_sha256="0",
    half_difference=0.05,
    enough=16,
    shift=0.1,
    changed=0.02,
    masks=9,
    dice_before=0.4,
    dice_after=0.5,
)


def test_what_is_said_of_a_site() -> None:
    assert describe_frames(SITE) == (
        "64 frames; the statistics of their first and second half differ by 0.05 standard deviations; "
        "16 or more are enough"
    )
    few = SITE.model_copy(update={"frames": 1, "half_difference": None, "enough": None})
    assert describe_frames(few) == "1 frame, too few to tell how many are enough"
    assert "40.0 before, 50.0 after, on the 9 frames with masks" in describe_site(SITE)["Dice"]
    assert "Dice" not in describe_site(SITE.model_copy(update={"dice_before": None, "dice_after": None}))
    assert summarise_statistics(Statistics()) == ""
    assert summarise_statistics(Statistics(source="site", site=SITE)) == "statistics of 64 frames of b"
    assert summarise_statistics(Statistics(source="clean")) == "statistics of clean training images"
    half = summarise_statistics(Statistics(own=0.5))
    assert half == "statistics of the training, 50% of them each image's own"


def test_convention_what_is_a_large_change() -> None:
    assert warn_of_site(SITE) == []
    assert not warn_of_site(SITE.model_copy(update={"shift": 0.25, "changed": 0.05}))
    (warning,) = warn_of_site(SITE.model_copy(update={"shift": 0.26, "changed": 0.06}))
    assert "0.25 standard deviations" in warning and "more than 5% of their pixels" in warning
    (warning,) = warn_of_site(SITE.model_copy(update={"dice_after": 0.3}))
    assert "the Dice has fallen" in warning
    (warning,) = warn_of_site(SITE.model_copy(update={"frames": 3, "enough": None}))
    assert "3 frames may be too few" in warning
