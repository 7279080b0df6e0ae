"""Protocol `pranet`: the published lists, or the parts of the TrainDataset and TestDataset folders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fpgm.data.catalog import sequence
from fpgm.data.splits.dividing import Shares
from fpgm.data.splits.protocols import draw
from fpgm.data.splits.split import PARTS, Split
from tests.data.making import own, public

FIVE = ("Kvasir-SEG", "CVC-ClinicDB", "CVC-ColonDB", "ETIS-LaribPolypDB", "CVC-300")


def counts(split: Split) -> dict[str, tuple[int, ...]]:
    return {name: tuple(count[part] for part in PARTS) for name, count in split.counts().items()}


def test_the_benchmark_has_its_counts_and_tells_its_leaks() -> None:
    split = draw(public(*FIVE, "BKAI-IGH"), "pranet", 0)
    assert counts(split) == {
        "Kvasir-SEG": (900, 0, 100, 0),
        "CVC-ClinicDB": (550, 0, 62, 0),
        "CVC-ColonDB": (0, 0, 0, 380),
        "ETIS-LaribPolypDB": (0, 0, 0, 196),
        "CVC-300": (0, 0, 0, 60),
    }
    told = "all 26 groups of test CVC-ClinicDB are in train CVC-ClinicDB too, such as CVC-ClinicDB sequence"
    assert any(note.startswith(told) for note in split.notes)
    assert "all 60 images of unseen CVC-300 are in unseen CVC-ColonDB too: 149–208" in split.notes
    assert "BKAI-IGH: 1000 images left out: they are not of the benchmark" in split.notes
    assert "no validation images: training keeps its last weights" in split.notes


def test_the_packaged_lists_are_the_published_ones(real_data: Path) -> None:
    split = draw(public(*FIVE), "pranet", 0)
    for name, file in (("Kvasir-SEG", "kvasir"), ("CVC-ClinicDB", "clinicdb")):
        for part in ("train", "test"):
            listed = (real_data / "splits" / f"pranet_{file}_{part}.txt").read_text().split()
            found = {id_.partition("/")[2] for id_ in getattr(split, part) if id_.startswith(f"{name}/")}
            assert found == set(listed)


def test_recorded_parts_come_before_the_lists() -> None:
    stores = public("Kvasir-SEG", "CVC-ClinicDB")
    for store, test in zip(stores.values(), (100, 62), strict=True):
        store.parts = {id_: "test" if k < test else "train" for k, id_ in enumerate(store.ids)}
    split = draw(stores, "pranet", 0)
    recorded = {f"{name}/{id_}": part for name, store in stores.items() for id_, part in store.parts.items()}
    assert set(split.test) == {id_ for id_, part in recorded.items() if part == "test"}
    assert Counter(id_.partition("/")[0] for id_ in split.test) == {"Kvasir-SEG": 100, "CVC-ClinicDB": 62}
    assert sum("is not in the store: the benchmark has its" in note for note in split.notes) == 3


def test_validation_images_are_taken_from_train_if_asked() -> None:
    split = draw(public(*FIVE), "pranet", 0, fractions=Shares(0.9, 0.1, 0))
    assert len(split.test) == 162 and len(split.train) + len(split.validation) == 1450
    assert 140 <= len(split.validation) <= 150
    videos = set(map(sequence, split.validation)) - {None}
    assert len(videos) > 1 and not videos & set(map(sequence, split.train))


def test_what_is_not_the_benchmark_is_refused() -> None:
    with pytest.raises(ValueError, match="the store has no CVC-ClinicDB; add it"):
        draw(public("Kvasir-SEG"), "pranet", 0)
    stores = public("Kvasir-SEG", "CVC-ClinicDB")
    kvasir = stores["Kvasir-SEG"]
    kvasir.ids, kvasir.dhash, kvasir.has_mask = kvasir.ids[:940], kvasir.dhash[:940], kvasir.has_mask[:940]
    with pytest.raises(ValueError, match=r"all 1000 images of Kvasir-SEG with masks, but .* has 940 \(no parts\)"):
        draw(stores, "pranet", 0)
    with pytest.raises(ValueError, match="has unseen data sets of its own: omit --unseen"):
        draw({**public("Kvasir-SEG", "CVC-ClinicDB"), "mine": own("mine", 4)}, "pranet", 0, unseen=["mine"])
