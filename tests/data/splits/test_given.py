"""Protocol `given`: the parts of the raw folders."""

from __future__ import annotations

import pytest

from fpgm.data.splits.dividing import Shares
from fpgm.data.splits.given import is_divided
from fpgm.data.splits.protocols import draw, usual_protocol
from fpgm.data.splits.split import Split
from tests.data.making import Listed, own


def given(name: str = "clinic", *, train: int, validation: int = 0, test: int = 0, bare: int = 0) -> Listed:
    """A data set whose images 0, 1, … are of these parts, in this order; the last ones have neither mask nor part."""
    kept = train + validation + test
    store = own(name, kept + bare, {str(k) for k in range(kept, kept + bare)}, seed=sum(map(ord, name)))
    names = ["train"] * train + ["validation"] * validation + ["test"] * test
    store.parts = {str(k): part for k, part in enumerate(names)}
    return store


def ids(first: int, last: int, name: str = "clinic") -> set[str]:
    return {f"{name}/{k}" for k in range(first, last)}


def sizes(split: Split) -> list[int]:
    return [len(part) for part in split.parts().values()]


def test_the_parts_are_kept_as_they_are() -> None:
    stores = {"clinic": given(train=20, validation=5, test=8, bare=6)}
    assert usual_protocol(stores) == "given"
    for seed in range(2):
        split = draw(stores, "given", seed)
        assert split.name == f"given-{seed}" and split.notes == ()
        assert set(split.train[:20]) == ids(0, 20) and set(split.train[20:]) == ids(33, 39)
        assert split.without_mask == 6
        assert set(split.validation) == ids(20, 25) and set(split.test) == ids(25, 33)


def test_other_protocols_divide_anew_and_say_so() -> None:
    stores = {"clinic": given(train=20, validation=5, test=8)}
    split = draw(stores, "strict", 0)
    assert set(split.test) != ids(25, 33)
    assert "clinic: the given parts are ignored; protocol given keeps them" in split.notes


def test_missing_validation_is_taken_from_train_whole_groups_at_a_time() -> None:
    store = given(train=40, test=8, bare=4)
    store.groups = {str(k): f"patient {k // 5}" for k in range(40)} | {"48": "patient 0", "49": "patient 7"}
    split = draw({"clinic": store}, "given", 0)
    assert set(split.test) == ids(40, 48)
    assert len(split.validation) == 5  # 0.1 / 0.8 of 40
    patients = {int(id_[7:]) // 5 for id_ in split.validation}
    assert len(patients) == 1
    left = {0: "clinic/48", 7: "clinic/49"}.get(patients.pop())
    assert left not in split.train and {"clinic/50", "clinic/51"} < set(split.train)
    assert "clinic: 5 train images are taken for validation" in split.notes
    assert not draw({"clinic": store}, "given", 0, fractions=Shares(0.8, 0, 0.2)).validation


@pytest.mark.parametrize("seed", range(3))
def test_validation_is_not_taken_from_groups_that_reach_into_test(seed: int) -> None:
    store = given(train=40, test=8)
    store.groups = {str(k): f"patient {k // 5}" for k in range(40)} | {"40": "patient 0", "41": "patient 1"}
    split = draw({"clinic": store}, "given", seed)
    assert len(split.validation) == 5 and min(int(id_[7:]) for id_ in split.validation) >= 10
    store.groups |= {str(40 + k): f"patient {k}" for k in range(8)}  # all of them do
    assert len(draw({"clinic": store}, "given", seed).validation) == 5


def test_one_data_set_has_validation_images_and_another_has_none() -> None:
    stores = {"a": given("a", train=20, validation=5, test=5), "b": given("b", train=16, test=4)}
    split = draw(stores, "given", 0)
    assert {id_ for id_ in split.validation if id_[0] == "a"} == ids(20, 25, "a")
    assert sum(id_[0] == "b" for id_ in split.validation) == 2  # 0.1 / 0.8 of 16


def test_missing_test_images_are_said() -> None:
    split = draw({"clinic": given(train=20, validation=5)}, "given", 0)
    assert split.notes == ("no test images: `fpgm evaluate` has nothing to score",)


def test_images_for_testing_without_a_mask_are_not_trained_on() -> None:
    store = given(train=20, validation=5, test=8)
    store.has_mask[25:28] = False
    split = draw({"clinic": store}, "given", 0)
    assert set(split.test) == ids(28, 33) and set(split.train) == ids(0, 20)
    assert split.notes == ("clinic: 3 images without a mask left out",)


def test_images_with_a_mask_and_no_part_are_left_out() -> None:
    store = given(train=20, validation=5, test=8)
    del store.parts["3"]
    split = draw({"clinic": store}, "given", 0)
    assert "clinic/3" not in split.train
    assert split.notes == ("clinic: 1 images left out: they are in no given part",)


def test_leaks_are_kept_and_named() -> None:
    store = given(train=20, validation=5, test=8)
    store.groups = {"0": "p1", "30": "p1", "31": "p1", "1": "p2", "29": "p2", "28": "p3"}
    store.dhash = (*store.dhash[:32], store.dhash[2])  # 32, of test, is a copy of 2
    split = draw({"clinic": store}, "given", 0)
    assert sizes(split) == [20, 5, 8, 0]
    assert split.notes == ("train clinic and test clinic share 2 groups and 1 exact duplicates",)


def test_every_data_set_with_masks_needs_parts_unless_it_is_held_out() -> None:
    stores = {"clinic": given(train=20, validation=5, test=8), "far": own("far", 10, seed=9)}
    assert not is_divided(stores) and usual_protocol(stores) == "strict"
    with pytest.raises(ValueError, match="but far has none: choose --protocol strict, hold it out with --unseen"):
        draw(stores, "given", 0)
    assert is_divided(stores, ["far"])
    split = draw(stores, "given", 0, unseen=["far"])
    assert sizes(split) == [20, 5, 8, 10]
    videos = {"clinic": stores["clinic"], "more": own("more", 10, {str(k) for k in range(10)}, seed=8)}
    assert is_divided(videos)  # without a mask there is nothing to divide
    assert sizes(draw(videos, "given", 0)) == [30, 5, 8, 0]


def test_the_catalogues_unseen_sets_stay_unseen_without_parts() -> None:
    stores = {"CVC-300": own("CVC-300", 6, seed=5), "clinic": given(train=20, validation=5, test=8)}
    assert usual_protocol(stores) == "given"
    assert sizes(draw(stores, "given", 0)) == [20, 5, 8, 6]


def test_an_unknown_part_is_refused() -> None:
    store = given(train=20, test=8)
    store.parts["3"] = "dev"
    with pytest.raises(ValueError, match="clinic/3 is of part 'dev', but parts are train, validation, test, unseen"):
        draw({"clinic": store}, "given", 0)
