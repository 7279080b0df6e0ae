"""Protocol ``pranet``: the field's usual benchmark, with which PraNet and most later networks were compared.

Train is 900 images of Kvasir-SEG and 550 of CVC-ClinicDB, test the other 100 and 62; CVC-300, CVC-ColonDB and
ETIS-LaribPolypDB are unseen. It has no validation images. The parts are those of the TrainDataset and TestDataset
folders, or, where both data sets come from their own folders, those of the published lists.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from fpgm.data.catalog import CATALOG
from fpgm.data.splits.audit import describe_leaks, judge
from fpgm.data.splits.dividing import Parts, Shares, carve, describe_left_out, finish, linked, masked_images
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.given import recorded_parts
from fpgm.data.splits.split import PARTS, Split, dataset_of
from fpgm.data.store import Store

COUNTS = {"Kvasir-SEG": {"train": 900, "test": 100}, "CVC-ClinicDB": {"train": 550, "test": 62}}
UNSEEN = ("CVC-300", "CVC-ColonDB", "ETIS-LaribPolypDB")


def draw_pranet(stores: Mapping[str, Store], seed: int, fractions: Shares | None = None) -> Split:
    """Make the benchmark's split.

    Args:
        stores: the data sets; those that are not of the benchmark are left out.
        seed: seed of the order of train.
        fractions: shares, of which ``validation / (train + validation)`` of train is taken for validation; if not
            given there are no validation images, as in the benchmark.
    """
    masked = masked_images(stores)
    evidence = gather({name: store for name, store in stores.items() if name in COUNTS or name in UNSEEN})
    parts: Parts = {part: [] for part in PARTS}
    for name in COUNTS:
        for id_, part in _divided(stores, name).items():
            parts[part].append(id_)
    parts["unseen"] = [id_ for id_, has_mask in masked.items() if has_mask and dataset_of(id_) in UNSEEN]
    notes = carve(parts, set(COUNTS), linked(evidence), masked, fractions, seed) if fractions else []
    notes += [
        f"{name} is not in the store: the benchmark has its {CATALOG[name].counts.total} images as unseen ones"  # type: ignore[union-attr]  # all of the paper's have counts
        for name in UNSEEN
        if name not in stores
    ]
    notes += describe_left_out(parts, masked, "they are not of the benchmark")
    return finish(parts, "pranet", seed, masked, [*notes, *describe_leaks(judge(evidence, parts))])


def _divided(stores: Mapping[str, Store], name: str) -> dict[str, str]:
    """Return the part of each image of a data set, as recorded or else as published."""
    if name not in stores:
        raise ValueError(
            f"protocol pranet needs {' and '.join(COUNTS)}, but the store has no {name}; add it with "
            "`fpgm data prepare`, from its own folder or from TrainDataset and TestDataset"
        )
    recorded = recorded_parts({name: stores[name]})
    if Counter(recorded.values()) == COUNTS[name]:
        return recorded
    test = _test_ids()[name]
    ids = [f"{name}/{id_}" for id_ in stores[name].ids]
    if len(ids) != sum(COUNTS[name].values()) or not test <= set(ids) or not stores[name].has_mask.all():
        found = ", ".join(f"{count} {part}" for part, count in Counter(recorded.values()).items()) or "no parts"
        raise ValueError(
            f"protocol pranet needs all {sum(COUNTS[name].values())} images of {name} with masks, but the store has "
            f"{int(stores[name].has_mask.sum())} ({found}); `fpgm data verify` names the others"
        )
    return {id_: "test" if id_ in test else "train" for id_ in ids}


@cache
def _test_ids() -> dict[str, set[str]]:
    """Read the published test lists; the train lists are the rest of each data set."""
    text = (files("fpgm.data") / "reference" / "pranet_test.csv").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {name: set() for name in COUNTS}
    for row in csv.DictReader(text.splitlines()):
        found[row["dataset"]].add(f"{row['dataset']}/{row['id']}")
    return found
