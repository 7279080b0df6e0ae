"""Groups and hashes of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fpgm.data.batches.pool import Pool
from fpgm.data.image_facts import ImageHash, Overlap, find_overlap, groups_of, image_hashes
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.store import StoredImage, open_stores, write_store


def make_pool(folder: Path, name: str, groups: dict[str, str | None]) -> Pool:
    """A data set whose image n is of shade n."""
    rows = [
        StoredImage(
            ImageRow(id_, None, None, f"source {id_}", None, 16, 16, 0.5, group),
            np.full((16, 16, 3), shade, np.uint8),
            np.ones((16, 16), np.uint8),
            f"{shade:064x}",
        )
        for shade, (id_, group) in enumerate(groups.items())
    ]
    header = {"name": name, "source": "drawn", "size": 16, "rules": {}, "inputs": ""}
    write_store(folder / name, rows, lambda found: Manifest.describe(found, **header))
    stores = open_stores(folder, [name])
    return Pool(stores, [f"{name}/{id_}" for id_ in stores[name].ids])


def test_the_store_names_groups_and_the_catalogue_videos(tmp_path: Path) -> None:
    assert groups_of(make_pool(tmp_path, "clinic", {"1": "patient 4", "2": None})) == ["patient 4", None]
    pool = make_pool(tmp_path, "CVC-ClinicDB", {"25": None, "26": None, "27": "mine"})
    assert groups_of(pool) == ["CVC-ClinicDB sequence 1", "CVC-ClinicDB sequence 2", "mine"]


def test_hashes_are_of_source_pixels_and_fingerprint(tmp_path: Path) -> None:
    first, second = image_hashes(make_pool(tmp_path, "clinic", {"1": None, "2": None}))
    assert (first.id, first.source, first.dhash) == ("clinic/1", "source 1", "0" * 64)
    assert len(first.pixels) == 32 and first.pixels != second.pixels


def test_overlap_is_by_source_or_pixels_and_near_by_fingerprint() -> None:
    def image(id_: str, source: str, pixels: str, bits: int) -> ImageHash:
        return ImageHash(id_, source, pixels, f"{(1 << bits) - 1:064x}")

    known = [image("t/1", "s1", "p1", 100), image("t/2", "", "p2", 150), image("t/3", "s3", "p3", 0)]
    new = [
        image("n/source", "s1", "other", 200),
        image("n/pixels", "else", "p2", 150),
        image("n/near", "x", "y", 12),  # twelve bits from t/3
        image("n/far", "x", "z", 13),
        image("n/unknown", "", "w", 250),  # no source is not the same source
    ]
    assert find_overlap(new, known) == Overlap((("n/source", "t/1"), ("n/pixels", "t/2")), (("n/near", "t/3"),))
    assert find_overlap([], known) == find_overlap(new, []) == Overlap((), ())
