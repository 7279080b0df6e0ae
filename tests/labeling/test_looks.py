"""Looks: images of one scanner are nearer to each other than to those of another."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fpgm.data.batches.pool import Pool
from fpgm.data.store import open_stores
from fpgm.labeling.looks import describe_looks


def test_images_of_one_domain_look_alike(phantom_store: Path) -> None:
    stores = open_stores(phantom_store, ["phantom-a", "phantom-f"])
    ids = [f"{name}/{store.ids[row]}" for name, store in stores.items() for row in range(4)]
    done: list[tuple[int, int]] = []
    looks = describe_looks(Pool(stores, ids), lambda now, all_: done.append((now, all_)))
    away = np.linalg.norm(looks[:, None] - looks[None], axis=2)
    within = [away[i, j] for i in range(8) for j in range(8) if i != j and i // 4 == j // 4]
    between = away[:4, 4:]
    assert np.mean(within) < np.mean(between) and done[-1] == (8, 8)
    assert np.allclose(looks.mean(0), 0, atol=1e-5) and np.isfinite(looks).all()
