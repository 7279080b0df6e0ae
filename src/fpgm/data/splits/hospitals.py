"""The hospitals of a store, of which protocol ``hospitals`` keeps one unseen."""

from __future__ import annotations

from collections.abc import Mapping

from fpgm.data.catalog import find, hospital_of, same_name
from fpgm.data.splits.split import slug
from fpgm.data.store import Store

Hospitals = dict[str, tuple[str, ...]]  # names of the data sets of each hospital


def hospitals(stores: Mapping[str, Store]) -> Hospitals:
    """Return the data sets of each hospital of a store, in the order of the store."""
    found: dict[str, tuple[str, ...]] = {}
    for name in stores:
        found[hospital_of(name)] = (*found.get(hospital_of(name), ()), name)
    known: dict[str, str] = {}
    for hospital in found:
        twin = known.setdefault(slug(hospital), hospital)
        if twin != hospital:
            raise ValueError(
                f"{twin} and {hospital} would be hospitals of the same name {slug(hospital)}: "
                "prepare one of them under another --name"
            )
    return found


def folds(stores: Mapping[str, Store]) -> list[str]:
    """Return the hospitals that can be left out: those with masks, if another hospital has masks to train on."""
    usable = [
        hospital
        for hospital, datasets in hospitals(stores).items()
        if any(stores[name].has_mask.any() for name in datasets)
    ]
    if len(usable) < 2:
        raise ValueError(
            "protocol hospitals needs images with masks of two hospitals or more; "
            f"this store has {describe(hospitals(stores))}; add data with `fpgm data prepare`"
        )
    return usable


def find_hospital(name: str, stores: Mapping[str, Store]) -> str:
    """Return the hospital of that name in a store, or the one of the data set of that name or alias."""
    known, public = hospitals(stores), find(name)
    wanted = public.hospital if public else name
    matches = [
        hospital
        for hospital, datasets in known.items()
        if any(same_name(wanted, other) for other in (hospital, *datasets))
    ]
    if not matches:
        raise ValueError(f"no hospital {name!r} in the store, which has {describe(known)}")
    hospital = matches[0]
    if hospital not in folds(stores):
        raise ValueError(
            f"{hospital} has no image with a mask, so nothing could be scored on it; "
            f"leave out one of {', '.join(folds(stores))}"
        )
    return hospital


def describe(hospitals: Mapping[str, tuple[str, ...]]) -> str:
    """Write hospitals with their data sets for a message: ``ETIS (ETIS-LaribPolypDB), clinic``."""
    return ", ".join(
        hospital if datasets == (hospital,) else f"{hospital} ({', '.join(datasets)})"
        for hospital, datasets in hospitals.items()
    )
