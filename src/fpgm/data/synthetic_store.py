"""A store of drawn phantoms."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from fpgm.data.fingerprint import dhash
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.parallel import Progress, Workers, counted
from fpgm.data.store import StoredImage, write_store
from fpgm.data.synthetic import Variety, phantom


def build_phantom(
    domain: str,
    out: Path,
    count: int,
    size: int = 128,
    seed: int = 0,
    workers: Workers | None = None,
    progress: Progress | None = None,
    variety: Variety = "plain",
) -> Manifest:
    """Draw images 0 … count-1 of a phantom domain into ``out/<domain>``; the same arguments give the same bytes."""
    if count < 1:
        raise ValueError(f"{count} images of {domain}; at least 1 is needed")
    header: dict[str, Any] = {
        "name": domain,
        "source": f"phantom, {variety}, seed {seed}",
        "size": size,
        "rules": {},
        "inputs": "",
    }
    drawn = (workers or Workers()).map(
        partial(_draw, domain=domain, seed=seed, size=size, variety=variety), range(count)
    )
    records = counted(drawn, "draw", count, progress)
    return write_store(out / domain, records, lambda rows: Manifest.describe(rows, **header))


def _draw(index: int, domain: str, seed: int, size: int, variety: Variety) -> StoredImage:
    image, mask = phantom(domain, index, seed, size, variety)
    share = round(float(mask.mean()), 6)
    row = ImageRow(f"{index:05d}", None, None, None, None, size, size, share)
    return StoredImage(row, image, mask, dhash(Image.fromarray(image)))
