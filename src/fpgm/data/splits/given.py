"""Protocol ``given``: the parts that the raw folders had, as `fpgm data prepare` recorded them.

Nothing is moved between the parts. A data set with train images and no validation images gives a share of its train
images, whole groups at a time, as ``strict`` would. Images of validation or test without a mask are left out; images
without a mask and without a part are unlabelled train images. Leaks are named and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fpgm.data.catalog import CATALOG
from fpgm.data.names import abbreviate
from fpgm.data.splits.audit import describe_leaks, judge
from fpgm.data.splits.dividing import Parts, Shares, carve, describe_left_out, finish, linked, masked_images
from fpgm.data.splits.duplicates import gather
from fpgm.data.splits.split import PARTS, Split, dataset_of
from fpgm.data.store import Store


def recorded_parts(stores: Mapping[str, Store]) -> dict[str, str]:
    """Return the part of each image that has one."""
    found = {}
    for name, store in stores.items():
        for row in store.manifest.images:
            if row.part is not None:
                if row.part not in PARTS:
                    raise ValueError(
                        f"{name}/{row.id} is of part {row.part!r}, but parts are {', '.join(PARTS)}; "
                        "prepare the data set again with `fpgm data prepare`"
                    )
                found[f"{name}/{row.id}"] = row.part
    return found


def has_groups(store: Store) -> bool:
    """Whether the groups of a data set's images, such as patients, are recorded."""
    return any(row.group is not None for row in store.manifest.images)


def held_out_sets(stores: Mapping[str, Store], unseen: Collection[str], divided: Collection[str] = ()) -> set[str]:
    """Return the data sets to hold out whole: those asked for, and the catalogue's unless their parts are known."""
    return {
        name
        for name in stores
        if name in unseen or (name in CATALOG and CATALOG[name].role == "unseen" and name not in divided)
    }


def without_parts(stores: Mapping[str, Store], unseen: Collection[str] = ()) -> list[str]:
    """Return the data sets with masks whose parts are not recorded, without those that are held out whole."""
    masked, known = masked_images(stores), recorded_parts(stores)
    divided = {dataset_of(id_) for id_ in known if masked[id_]}
    held_out = held_out_sets(stores, unseen, divided)
    return [
        name for name, store in stores.items() if store.has_mask.any() and name not in divided and name not in held_out
    ]


def is_divided(stores: Mapping[str, Store], unseen: Collection[str] = ()) -> bool:
    """Whether the raw folders were divided already: all data sets with masks have parts, apart from held out ones."""
    return bool(recorded_parts(stores)) and not without_parts(stores, unseen)


def describe_ignored(stores: Mapping[str, Store], *, groups: bool) -> list[str]:
    """Say which recorded parts and, if asked, groups a protocol does not look at."""
    divided = sorted({dataset_of(id_) for id_ in recorded_parts(stores)})
    notes = [f"{name}: the given parts are ignored; protocol given keeps them" for name in divided]
    grouped = [name for name, store in stores.items() if groups and has_groups(store)]
    return notes + [f"{name}: the given groups are ignored; protocol strict keeps them together" for name in grouped]


def draw_given(stores: Mapping[str, Store], seed: int, fractions: Shares, unseen: Collection[str] = ()) -> Split:
    """Make a split of the recorded parts.

    Args:
        stores: the data sets.
        seed: seed of the order of train and of the validation images taken from it.
        fractions: shares, of which ``validation / (train + validation)`` is taken where there are no validation images.
        unseen: data sets to hold out whole.
    """
    if bare := without_parts(stores, unseen):
        raise ValueError(
            f"protocol given takes the parts of the raw folders, but {abbreviate(bare)} has none: choose --protocol "
            "strict, hold it out with --unseen, or name the other data sets with --datasets"
        )
    masked, evidence = masked_images(stores), gather(stores)
    parts = _collect(stores, masked, unseen)
    lacking = {dataset_of(id_) for id_ in parts["train"]} - {dataset_of(id_) for id_ in parts["validation"]}
    notes = carve(parts, lacking, linked(evidence), masked, fractions, seed)
    notes += describe_left_out(parts, masked, "they are in no given part")
    return finish(parts, "given", seed, masked, [*notes, *describe_leaks(judge(evidence, parts))])


def _collect(stores: Mapping[str, Store], masked: Mapping[str, bool], unseen: Collection[str]) -> Parts:
    """Put each image into its part."""
    known = recorded_parts(stores)
    held_out = held_out_sets(stores, unseen, {dataset_of(id_) for id_ in known if masked[id_]})
    parts: Parts = {part: [] for part in PARTS}
    for id_, has_mask in masked.items():
        part = "unseen" if dataset_of(id_) in held_out else known.get(id_)
        if part is None and not has_mask:
            part = "train"
        if part and (has_mask or part == "train"):
            parts[part].append(id_)
    return parts
