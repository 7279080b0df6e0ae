"""Splits: the files, the labelled sets, the protocols, and lists published by others."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgm.data.catalog import CATALOG, sequence
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.protocols import (
    FRACTIONS,
    Shares,
    _pick,
    draw,
    import_lists,
    parse_fractions,
    parse_lists,
)
from fpgm.data.splits.split import PARTS, Split, dataset_of
from tests.data.making import own, public

IN_DOMAIN = ("Kvasir-SEG", "CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB")
SIX = (*IN_DOMAIN, "CVC-300", "BKAI-IGH")


def split_of(train: int, without_mask: int = 0) -> Split:
    ids = tuple(f"a/{k}" for k in range(train))
    return Split(ids, ("a/v",), ("a/t",), (), "paper", 0, without_mask)


def counts(split: Split, name: str) -> tuple[int, ...]:
    return tuple(split.counts()[name][part] for part in PARTS)


# The file format


def test_saved_split_comes_back(tmp_path: Path) -> None:
    split = draw(public("CVC-300", "ETIS-LaribPolypDB"), "strict", 3)
    split.save(tmp_path / "s")
    assert Split.load(tmp_path / "s") == split
    card = json.loads((tmp_path / "s" / "split.json").read_text())
    assert card["protocol"] == "strict"
    assert card["counts"]["CVC-300"] == {"train": 0, "validation": 0, "test": 0, "unseen": 60}
    assert (tmp_path / "s" / "train.txt").read_text().splitlines() == list(split.train)


def test_same_split_gives_the_same_bytes_and_another_is_refused(tmp_path: Path) -> None:
    stores = public("ETIS-LaribPolypDB")
    draw(stores, "paper", 0).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"train.txt", "validation.txt", "test.txt", "unseen.txt", "split.json"}
    draw(stores, "paper", 0).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(ValueError, match="another split; choose another --out"):
        draw(stores, "paper", 1).save(tmp_path)


def test_missing_changed_and_broken_files_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="fpgm data split --data STORE"):
        Split.load(tmp_path)
    split_of(4).save(tmp_path)
    (tmp_path / "test.txt").write_text("a/other\n")
    with pytest.raises(ValueError, match=r"test\.txt was changed.*fpgm data split"):
        Split.load(tmp_path)
    (tmp_path / "split.json").write_text('{"protocol": "paper"}')
    with pytest.raises(ValueError, match=r"split\.json: .*fpgm data split"):
        Split.load(tmp_path)
    (tmp_path / "split.json").write_text("{")
    with pytest.raises(ValueError, match=r"split\.json: the file: "):
        Split.load(tmp_path)


def test_an_image_stands_once() -> None:
    with pytest.raises(ValueError, match="a/1: twice"):
        Split(("a/1", "a/1"), (), (), (), "paper", 0)
    with pytest.raises(ValueError, match="a/1: twice"):
        Split(("a/1",), (), ("a/1",), (), "paper", 0)


# Labelled sets


def test_convention_percentages_of_the_papers_pool_are_the_papers() -> None:
    split = split_of(1430)
    assert [len(split.labeled(spec)) for spec in ("5%", "10%", "20%")] == [70, 140, 280]
    assert [len(split.labeled(spec)) for spec in ("1%", "50%", "100%")] == [14, 715, 1430]


def test_convention_other_percentages_are_rounded_down() -> None:
    # 5 % of 1,394 is 69.7; 7.5 % of 1,394 is 104.55; 29 % of 100 is 29 exactly, where floats give 28.999…
    assert [len(split_of(1394).labeled(spec)) for spec in ("5%", "7.5%", "70", 70)] == [69, 104, 70, 70]
    assert len(split_of(100).labeled("29%")) == 29


def test_convention_percentages_are_of_the_images_with_masks() -> None:
    split = split_of(100, without_mask=60)
    assert len(split.labeled("50%")) == 20
    assert len(split.labeled("100%")) == 40
    assert len(split.unlabeled("100%")) == 60


@given(st.integers(1, 60), st.integers(1, 60))
def test_labelled_sets_are_nested_and_leave_the_rest(small: int, large: int) -> None:
    split = split_of(60)
    small, large = sorted((small, large))
    assert split.labeled(large)[:small] == split.labeled(str(small))
    assert (*split.labeled(small), *split.unlabeled(small)) == split.train


@pytest.mark.parametrize("spec", ["", "five", "-3", "5 %%", "%", "1.5", "1e2", "5%5", "101%", "100.1%"])
def test_malformed_spec_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="such as 70 or 5%, not"):
        split_of(60).labeled(spec)


@pytest.mark.parametrize(("spec", "count"), [("0", 0), ("1%", 0), ("41", 41), ("2.49%", 0)])
def test_impossible_count_is_refused(spec: str, count: int) -> None:
    with pytest.raises(ValueError, match=rf"are {count}, but train has 40 with masks; give 1 to 40"):
        split_of(50, without_mask=10).labeled(spec)


# Protocols


def test_paper_protocol_has_the_counts_of_table_1() -> None:
    split = draw(public(*SIX), "paper", 0)
    for name in SIX:
        table = CATALOG[name].counts
        assert table is not None
        unseen = name in ("CVC-300", "BKAI-IGH")
        assert counts(split, name) == ((0, 0, 0, table.total) if unseen else (*table[1:], 0))
    assert (len(split.train), len(split.validation), len(split.test)) == (1430, 244, 514)
    assert split.notes == ()


@pytest.mark.parametrize("protocol", ["paper", "strict"])
def test_draw_is_fixed_by_its_seed(protocol: str) -> None:
    stores = public("CVC-ColonDB", "ETIS-LaribPolypDB")
    first = draw(stores, protocol, 1)
    assert draw(stores, protocol, 1) == first
    other = draw(stores, protocol, 2)
    assert set(other.test) != set(first.test)
    assert set(other.train) != set(first.train)


def test_another_data_set_does_not_change_how_one_is_divided() -> None:
    alone = draw(public("ETIS-LaribPolypDB"), "paper", 0)
    both = draw(public("ETIS-LaribPolypDB", "CVC-ClinicDB"), "paper", 0)
    assert [id_ for id_ in both.test if dataset_of(id_) == "ETIS-LaribPolypDB"] == list(alone.test)


def test_labelled_images_are_spread_over_the_data_sets() -> None:
    split = draw(public(*IN_DOMAIN), "paper", 0)
    shares = [sum(dataset_of(id_) == name for id_ in split.labeled("20%")) / 280 for name in IN_DOMAIN]
    # Four standard deviations of the hypergeometric draw are below 0.11.
    assert shares == pytest.approx([700 / 1430, 400 / 1430, 230 / 1430, 100 / 1430], abs=0.11)


@pytest.mark.parametrize("seed", range(5))
def test_strict_protocol_cuts_no_video_and_no_duplicates(seed: int) -> None:
    stores = public(*SIX)
    split = draw(stores, "strict", seed)
    part_of = {id_: part for part, ids in split.parts().items() for id_ in ids}
    evidence = gather(stores)
    videos: dict[str, set[str]] = {}
    for id_ in part_of:
        if name := sequence(id_):
            videos.setdefault(name, set()).add(part_of[id_])
    assert len(videos) > 40
    assert all(len(parts) == 1 for parts in videos.values())
    assert len(evidence.first) > 200
    for i, j in zip(evidence.first, evidence.second, strict=True):
        ends = part_of.get(evidence.ids[i]), part_of.get(evidence.ids[j])
        assert None in ends or ends[0] == ends[1]


def test_strict_protocol_leaves_cvc300_out_of_colondb() -> None:
    split = draw(public(*SIX), "strict", 0)
    used = {id_ for ids in (split.train, split.validation, split.test) for id_ in ids}
    expected = {f"CVC-ColonDB/{frame}" for frame in range(1, 381) if not 149 <= frame <= 208}
    assert {id_ for id_ in used if dataset_of(id_) == "CVC-ColonDB"} == expected
    assert counts(split, "Kvasir-SEG") == (700, 100, 200, 0)
    assert counts(split, "CVC-ClinicDB") == (400, 62, 150, 0)
    assert counts(split, "CVC-ColonDB") == (194, 42, 84, 0)  # 230, 50, 100 of 380 scaled to 320
    assert any("60 images left out" in note for note in split.notes)


def test_strict_protocol_keeps_colondb_whole_where_cvc300_is_not_tested_on() -> None:
    assert sum(counts(draw(public("CVC-ColonDB"), "strict", 0), "CVC-ColonDB")) == 380


def test_incomplete_public_set_is_scaled_and_said() -> None:
    stores = public("CVC-ClinicDB")
    store = stores["CVC-ClinicDB"]
    store.ids, store.dhash, store.has_mask = store.ids[:306], store.dhash[:306], store.has_mask[:306]
    split = draw(stores, "paper", 0)
    assert counts(split, "CVC-ClinicDB") == (200, 31, 75, 0)  # half of 400, 62, 150
    assert split.notes == ("CVC-ClinicDB: Table 1's counts are scaled to 306 images",)


def test_own_data_set_is_divided_by_fractions() -> None:
    stores = {"mine": own("mine", 50), "other": own("other", 7, seed=1)}
    assert counts(draw(stores, "paper", 0), "mine") == (35, 5, 10, 0)
    shares = Shares(0.5, 0.5, 0)
    split = draw(stores, "strict", 0, fractions=shares, unseen=["other"])
    assert counts(split, "mine") == (25, 25, 0, 0)
    assert counts(split, "other") == (0, 0, 0, 7)


def test_phantoms_take_the_papers_roles() -> None:
    stores = {f"phantom-{letter}": own(f"phantom-{letter}", 10, seed=k) for k, letter in enumerate("abcdef")}
    split = draw(stores, "paper", 0)
    assert [counts(split, name) for name in stores] == [(7, 1, 2, 0)] * 4 + [(0, 0, 0, 10)] * 2


@pytest.mark.parametrize("protocol", ["paper", "strict"])
def test_images_without_masks_come_last_in_train_and_nowhere_else(protocol: str) -> None:
    bare = {str(k) for k in range(0, 60, 2)}
    stores = {"mine": own("mine", 60, bare), "far": own("far", 20, {"3"}, seed=1)}
    split = draw(stores, protocol, 0, unseen=["far"])
    assert split.without_mask == 30
    assert {id_.partition("/")[2] for id_ in split.train[-30:]} == bare
    assert counts(split, "mine") == (21 + 30, 3, 6, 0)
    assert "far/3" not in {id_ for ids in split.parts().values() for id_ in ids}
    assert "far: 1 images without a mask left out" in split.notes


def test_strict_leaves_out_an_unlabelled_copy_of_a_test_image() -> None:
    stores = {"mine": own("mine", 20, {"0"})}
    stores["mine"].dhash = (stores["mine"].dhash[7], *stores["mine"].dhash[1:])  # 0 is a copy of 7
    seen = set()
    for seed in range(12):
        split = draw(stores, "strict", seed)
        part = next(part for part, ids in split.parts().items() if "mine/7" in ids)
        assert ("mine/0" in split.train) == (part == "train")
        seen.add(part)
    assert len(seen) > 1


def test_groups_across_data_sets_stay_together() -> None:
    stores = {"a": own("a", 30), "b": own("b", 30, seed=1)}
    stores["b"].dhash = stores["a"].dhash  # b is a copy of a under another name
    split = draw(stores, "strict", 0)
    for ids in split.parts().values():
        assert {id_[2:] for id_ in ids if id_[0] == "a"} == {id_[2:] for id_ in ids if id_[0] == "b"}
    assert (len(split.train), len(split.validation), len(split.test)) == (42, 6, 12)


def test_groups_that_cannot_be_cut_are_said() -> None:
    stores = {"mine": own("mine", 10)}
    stores["mine"].dhash = stores["mine"].dhash[:1] * 10
    split = draw(stores, "strict", 0)
    assert counts(split, "mine") == (10, 0, 0, 0)
    assert "mine: test has 0 images instead of 2: groups are not cut" in split.notes
    assert any(note.startswith("no validation images") for note in split.notes)


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 30))
def test_pick_is_as_near_as_any_choice(weights: list[int], target: int) -> None:
    taken = _pick(weights, target)
    sums = [sum(w for w, take in zip(weights, t, strict=True) if take) for t in product((0, 1), repeat=len(weights))]
    reached = sum(w for w, take in zip(weights, taken, strict=True) if take)
    assert abs(reached - target) == min(abs(s - target) for s in sums)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "0 or more"),
        ({"unseen": ["mien"]}, r"mien: not in the store, which holds mine; see `fpgm data prepare`"),
        ({"unseen": ["mine"]}, "no image with a mask is left"),
    ],
)
def test_impossible_draws_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw({"mine": own("mine", 10)}, "paper", **{"seed": 0, **arguments})


@pytest.mark.parametrize("values", [[0.5, 0.5], [0.7, 0.1, 0.3], [1.2, -0.2, 0], [0, 0.5, 0.5], [float("nan"), 0, 0]])
def test_bad_fractions_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="add up to 1"):
        parse_fractions(values)


def test_good_fractions() -> None:
    assert parse_fractions([0.7, 0.1, 0.2]) == FRACTIONS
    assert parse_fractions([1, 0, 0]) == Shares(1, 0, 0)


# Published lists


def listed(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)


def test_lists_are_taken_as_they_are(tmp_path: Path) -> None:
    listed(tmp_path, train="1\n2.jpg\n\nimages/3.png\n", test=" 4 \n5\n")
    stores = {"mine": own("mine", 8), "far": own("far", 3, seed=1), "rest": own("rest", 2, seed=2)}
    lists = {("mine", "train"): tmp_path / "train.txt", ("mine", "test"): tmp_path / "test.txt"}
    split = import_lists(stores, lists, 0, unseen=["far"])
    assert set(split.train) == {"mine/1", "mine/2", "mine/3"}
    assert split.test == ("mine/4", "mine/5")
    assert split.unseen == ("far/0", "far/1", "far/2")
    assert split.validation == ()
    assert split.protocol == "imported"
    assert split.notes == (
        "mine: 3 images left out: they are in no list",
        "rest: 2 images left out: they are in no list",
        "no validation images, by which training would choose its best model",
    )


def test_validation_is_carved_from_train_only_if_asked_for_and_not_listed(tmp_path: Path) -> None:
    listed(tmp_path, train="".join(f"{k}\n" for k in range(20)), validation="30\n")
    stores = {"mine": own("mine", 40)}
    lists = {("mine", "train"): tmp_path / "train.txt"}
    split = import_lists(stores, lists, 0, fractions=Shares(0.6, 0.2, 0.2))
    assert (len(split.train), len(split.validation), len(split.test)) == (15, 5, 0)  # 0.2 / 0.8 of 20
    lists["mine", "validation"] = tmp_path / "validation.txt"
    split = import_lists(stores, lists, 0, fractions=Shares(0.6, 0.2, 0.2))
    assert (len(split.train), split.validation) == (20, ("mine/30",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nseven\n", r"seven: not in mine, whose ids look like 0"),
        ("1\n1\n", "mine/1: twice in the lists"),
        ("4\n", "mine/4: twice in the lists"),
        ("\x00\xff", "not in mine"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    listed(tmp_path, test="4\n")
    (tmp_path / "train.txt").write_bytes(text.encode("latin-1"))
    lists = parse_lists([f"mine/train={tmp_path}/train.txt", f"mine/test={tmp_path}/test.txt"])
    with pytest.raises(ValueError, match=message):
        import_lists({"mine": own("mine", 8)}, lists, 0)


def test_listed_test_image_needs_a_mask(tmp_path: Path) -> None:
    listed(tmp_path, train="1\n2\n", test="4\n")
    lists = parse_lists([f"mine/train={tmp_path}/train.txt", f"mine/test={tmp_path}/test.txt"])
    with pytest.raises(ValueError, match="mine/4: without a mask"):
        import_lists({"mine": own("mine", 8, {"4"})}, lists, 0)
    split = import_lists({"mine": own("mine", 8, {"1"})}, lists, 0)
    assert split.train == ("mine/2", "mine/1")


@pytest.mark.parametrize("option", ["train.txt", "Kvasir-SEG=a.txt", "Kvasir-SEG/dev=a.txt", "/train=a", "a/train="])
def test_malformed_list_options_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="DATASET/PART=FILE"):
        parse_lists([option])


def test_list_options_know_aliases_and_refuse_two_lists() -> None:
    assert parse_lists(["kvasir/train=a=b.txt"]) == {("Kvasir-SEG", "train"): Path("a=b.txt")}
    with pytest.raises(ValueError, match="two lists"):
        parse_lists(["Kvasir/train=a", "Kvasir-SEG/train=b"])
