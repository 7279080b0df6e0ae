"""Splits: the files, the labelled sets, the protocols, and lists published by others."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgm.data.catalog import CATALOG, sequence
from fpgm.data.splits.dividing import FRACTIONS, Shares, parse_fractions, pick
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.protocols import draw, import_lists, parse_lists, usual_protocol
from fpgm.data.splits.split import PARTS, Split, dataset_of, split_folder, split_setting
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
    with pytest.raises(ValueError, match="such as 70, 5% or all, not"):
        split_of(60).labeled(spec)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("0", "that is none of the 40 train images with masks"),
        ("2.49%", "that is none of the 40 train images with masks"),
        ("41", "train has only 40 images with masks"),
    ],
)
def test_impossible_count_is_refused(spec: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^--labeled {spec}: {told}; give 1 to 40, or all$"):
        split_of(50, without_mask=10).labeled(spec)


def test_all_is_every_mask() -> None:
    split = split_of(50, without_mask=10)
    assert split.labeled("all") == list(split.train[:40])
    assert split.unlabeled("all") == list(split.train[40:])


def test_labels_are_counted_and_described() -> None:
    split = split_of(88, without_mask=60)
    assert split.labels("all") == (28, 60, 0)
    assert split.labels("all").describe("all") == "28 labelled, 60 unlabelled"
    assert split.labels("20%") == (5, 83, 23)  # 20 % of 28 is 5.6
    told = "5 labelled, 83 unlabelled; --labeled 20%: 23 masks are not used"
    assert split.labels("20%").describe("20%") == told


@pytest.mark.parametrize(
    ("datasets", "usual"),
    [(["clinic"], "all"), (["Kvasir-SEG"], "5%"), (["clinic", "Kvasir-SEG"], "5%"), (["phantom-a"], "5%")],
)
def test_convention_all_masks_are_used_of_ones_own_data_alone(datasets: list[str], usual: str) -> None:
    train = tuple(f"{name}/{k}" for name in datasets for k in range(40))
    split = Split(train, (), (), ("Kvasir-SEG/x",), "paper", 0)  # what is held out does not matter
    assert split.usual_labeled == usual
    assert split.labeled("auto") == split.labeled(usual)


# Which split


def test_a_split_is_found_by_name_by_path_or_as_the_only_one(tmp_path: Path) -> None:
    store, own = tmp_path / "store", tmp_path / "elsewhere" / "mine"
    with pytest.raises(FileNotFoundError, match="there is no store"):
        split_folder(store)
    store.mkdir()
    with pytest.raises(FileNotFoundError, match="has no split yet: make one with `fpgm data split"):
        split_folder(store)
    split_of(4).save(store / "splits" / "paper-0")
    split_of(5).save(own)
    inside = store / "splits" / "paper-0"
    assert split_folder(store) == split_folder(store, "paper-0") == split_folder(store, str(inside)) == inside
    assert split_folder(store, str(own)) == own
    assert split_setting(store, inside) == "paper-0"
    assert split_setting(store, own) == str(own.resolve())
    split_of(6).save(store / "splits" / "strict-0")
    with pytest.raises(ValueError, match="several splits, choose one with --split: paper-0, strict-0"):
        split_folder(store)
    with pytest.raises(FileNotFoundError, match=r"no split papre-0: .* or one of paper-0, strict-0; paper-0 is near"):
        split_folder(store, "papre-0")


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


@pytest.mark.parametrize("fractions", [FRACTIONS, Shares(0.9, 0.05, 0.05)])
@pytest.mark.parametrize("seed", range(3))
def test_convention_ten_masks_are_enough_for_every_part(fractions: Shares, seed: int) -> None:
    split = draw({"mine": own("mine", 10)}, "strict", seed, fractions=fractions)
    train, validation, test, _ = counts(split, "mine")
    assert (train, validation, test) == (7, 1, 2) if fractions == FRACTIONS else (8, 1, 1)
    assert counts(draw({"mine": own("mine", 28)}, "strict", seed), "mine") == (19, 3, 6, 0)
    assert counts(draw({"mine": own("mine", 9)}, "strict", seed, fractions=Shares(0.9, 0.05, 0.05)), "mine")[0] == 9


def test_four_patients_give_every_part_one(seed: int = 0) -> None:
    stores = {"mine": own("mine", 28)}
    stores["mine"].groups = {str(k): f"p{k // 7}" for k in range(28)}  # 3 images would be nearer to none than to 7
    split = draw(stores, "strict", seed)
    assert counts(split, "mine") == (14, 7, 7, 0)
    assert "mine: validation has 7 images instead of 3: groups are not cut" in split.notes


def test_two_patients_cannot_give_every_part_one() -> None:
    stores = {"mine": own("mine", 20)}
    stores["mine"].groups = {str(k): f"p{k // 10}" for k in range(20)}
    assert counts(draw(stores, "strict", 0), "mine") == (10, 0, 10, 0)


# Patients


@pytest.mark.parametrize("seed", range(3))
def test_strict_cuts_no_given_group(seed: int) -> None:
    stores = {"a": own("a", 60, {"0"}), "b": own("b", 60, seed=1)}
    for store in stores.values():
        store.groups = {str(k): f"patient {k // 4}" for k in range(60)}  # of the same names in both
    split = draw(stores, "strict", seed)
    part_of = {id_: part for part, ids in split.parts().items() for id_ in ids}
    homes: dict[tuple[str, int], set[str]] = {}
    for id_, part in part_of.items():
        homes.setdefault((id_[0], int(id_[2:]) // 4), set()).add(part)
    assert len(homes) == 30 and all(len(parts) == 1 for parts in homes.values())
    pairs = [(homes["a", k], homes["b", k]) for k in range(15)]
    assert any(first != second for first, second in pairs)  # equal names in two data sets are two patients


def test_groups_are_ignored_at_random_and_said() -> None:
    stores = {"mine": own("mine", 20)}
    stores["mine"].groups = {"0": "p", "1": "p"}
    assert usual_protocol(stores) == "strict"
    note = "mine: the given groups are ignored; protocol strict keeps them together"
    assert note in draw(stores, "paper", 0).notes
    assert note not in draw(stores, "strict", 0).notes
    assert usual_protocol({"mine": own("mine", 20)}) == "strict"


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 30))
def test_pick_is_as_near_as_any_choice(weights: list[int], target: int) -> None:
    taken = pick(weights, target)
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
        "no validation images: training keeps its last weights",
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
