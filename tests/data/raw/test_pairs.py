"""Matching stems by hand-made lists."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fpgm.data.manifest import LeftOut
from fpgm.data.names import natural
from fpgm.data.raw.pairs import Pair, join, match, match_unlabeled, relative

ROOT = Path("/data")
BASES = (("", ROOT),)


def files(folder: str, *names: str) -> list[Path]:
    return [ROOT / folder / name for name in names]


def kinds(problems: tuple[LeftOut, ...]) -> list[tuple[str, str]]:
    return [(problem.kind, problem.file) for problem in problems]


def test_natural_order() -> None:
    assert sorted(["10", "9", "a2", "a10", "1", "01", ""], key=natural) == ["", "01", "1", "9", "10", "a2", "a10"]


@given(st.lists(st.text()), st.randoms(use_true_random=False))
def test_natural_order_is_total(names: list[str], random: Random) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)
    assert sorted(shuffled, key=natural) == sorted(names, key=natural)


@given(st.lists(st.integers(0, 10**6)))
def test_natural_order_of_numbers_is_theirs(numbers: list[int]) -> None:
    assert sorted(map(str, numbers), key=natural) == list(map(str, sorted(numbers)))


def test_equal_stems_pair_whatever_case_and_suffix() -> None:
    pairs, problems = match(files("i", "b10.JPG", "b9.jpg"), files("m", "B10.png", "B9.PNG"), BASES)
    assert pairs == (
        Pair("b9", ROOT / "i/b9.jpg", ROOT / "m/B9.PNG"),
        Pair("b10", ROOT / "i/b10.JPG", ROOT / "m/B10.png"),
    )
    assert not problems


def test_masks_may_be_named_after_their_image() -> None:
    images = files("i", "1.png", "2.png", "3.png", "4.png", "a_mask.png")
    masks = files("m", "p1.png", "2_mask.png", "3-segmentation.png", "4_gt.png", "a_mask.png")
    pairs, problems = match(images, masks, BASES)
    assert [(pair.id, pair.mask.name if pair.mask else None) for pair in pairs] == [
        ("1", "p1.png"),
        ("2", "2_mask.png"),
        ("3", "3-segmentation.png"),
        ("4", "4_gt.png"),
        ("a_mask", "a_mask.png"),  # an image of that very name comes first
    ]
    assert not problems


def test_missing_partners_are_named() -> None:
    pairs, problems = match(files("i", "1.png", "2.png"), files("m", "2.png", "3.png"), BASES)
    assert [pair.id for pair in pairs] == ["2"]
    assert kinds(problems) == [("missing mask", "i/1.png"), ("missing image", "m/3.png")]
    assert "--unlabeled" in problems[0].reason


def test_duplicate_stems_leave_out_every_one_of_them() -> None:
    images, masks = files("i", "1.jpg", "1.png", "2.png", "3.png"), files("m", "1.png", "2.png", "p2.png", "3.png")
    pairs, problems = match(images, masks, BASES)
    assert [pair.id for pair in pairs] == ["3"]
    assert {problem.kind for problem in problems} == {"duplicate stem"}
    assert sorted(file for _, file in kinds(problems)) == [
        "i/1.jpg",
        "i/1.png",
        "i/2.png",
        "m/1.png",
        "m/2.png",
        "m/p2.png",
    ]


def test_unlabelled_images_need_no_mask_and_yield_to_labelled_ones() -> None:
    labeled, _ = match(files("i", "1.png"), files("m", "1.png"), BASES)
    pairs, problems = match_unlabeled(files("u", "1.png", "2.png", "3.png", "3.jpg"), labeled, BASES)
    assert pairs == (Pair("2", ROOT / "u/2.png", None),)
    assert kinds(problems) == [("duplicate stem", f"u/{name}") for name in ("1.png", "3.jpg", "3.png")]


def test_join_leaves_out_what_two_parts_share() -> None:
    parts = [match(files(f"{p}/i", "1.png", f"{p}.png"), files(f"{p}/m", "1.png", f"{p}.png"), BASES) for p in "ab"]
    pairs, problems = join(parts, BASES)
    assert [pair.id for pair in pairs] == ["a", "b"]
    assert kinds(problems) == [("duplicate stem", "a/i/1.png"), ("duplicate stem", "b/i/1.png")]


def test_names_that_are_no_plain_text_are_refused_and_can_be_written() -> None:
    bad = [ROOT / "i" / "a\nb.png", ROOT / "i" / "\udcff.png", ROOT / "i" / " x.png"]
    pairs, problems = match_unlabeled([*bad, ROOT / "i" / "ü.png"], (), BASES)
    assert [pair.id for pair in pairs] == ["ü"]
    assert [problem.kind for problem in problems] == ["file name"] * 3
    assert all(problem.file.encode() for problem in problems)


def test_relative_takes_the_innermost_base() -> None:
    bases = (("images", ROOT), ("masks", ROOT / "masks"))
    assert relative(ROOT / "masks/1.png", bases) == "masks/1.png"
    assert relative(ROOT / "1.png", bases) == "images/1.png"
