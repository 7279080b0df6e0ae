"""The images that a run was begun with.

``data.json`` has a hash of each pool, so that the run goes on with no others; ``training_images.json`` has hashes of
each image, by which it is found among images that come later, even when the store is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm.data.image_facts import ImageHash, image_hashes
from fpgm.data.splits.split import Split
from fpgm.files import first_fault, parse_json, read_file, write_text
from fpgm.runs.folder import RunFolder

if TYPE_CHECKING:
    from fpgm.data.batches.pool import Pool


class TrainingImages(BaseModel):
    """``training_images.json``: the split, and the hashes of its images by the use that was made of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-training-images-1"] = "fpgm-training-images-1"
    protocol: str
    split_seed: int
    left_out: str = ""
    labeled: tuple[ImageHash, ...]
    unlabeled: tuple[ImageHash, ...]
    validation: tuple[ImageHash, ...]

    @property
    def images(self) -> tuple[ImageHash, ...]:
        """All images that had a part in the training or in the choice of the weights."""
        return *self.labeled, *self.unlabeled, *self.validation


def describe_training_images(split: Split, pools: Mapping[str, Pool | None]) -> TrainingImages:
    """Hash the images of the pools of a run; see `TrainingImages` for their names."""
    hashes: dict[str, Any] = {name: image_hashes(pool) if pool else () for name, pool in pools.items()}
    return TrainingImages(protocol=split.protocol, split_seed=split.seed, left_out=split.left_out, **hashes)


def write_training_images(run: Path, record: TrainingImages) -> None:
    """Write ``training_images.json``, a line per image."""
    header = record.model_dump(mode="json", exclude={"labeled", "unlabeled", "validation"})
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in header.items()]
    for part in ("labeled", "unlabeled", "validation"):
        rows = ",".join(f"\n  {json.dumps(row, ensure_ascii=False)}" for row in getattr(record, part))
        lines.append(f' "{part}": [{rows}]')
    write_text(RunFolder(run).training_images, "{\n" + ",\n".join(lines) + "\n}\n")


def read_training_images(run: Path) -> TrainingImages | None:
    """Read ``training_images.json``; None of a run of an earlier release, which has none."""
    path = RunFolder(run).training_images
    if not path.is_file():
        return None
    try:
        return TrainingImages.model_validate_json(read_file(path, run))
    except ValidationError as error:
        raise ValueError(f"{path} is damaged ({first_fault(error)}): copy the run again") from None


def check_images(run: Path, hashes: Mapping[str, str | None], store: Path) -> None:
    """Write the hashes of a new run; refuse a run that was begun with other images.

    Args:
        run: run folder.
        hashes: hash of each pool of images by its name; None where the run has no such pool.
        store: store that holds them, for the message.
    """
    path = RunFolder(run).images
    if not path.is_file():
        write_text(path, json.dumps(dict(hashes), indent=1) + "\n")
        return
    try:
        known = dict(parse_json(read_file(path)))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it if {store} is unchanged") from None
    if changed := [name for name in hashes if known.get(name) != hashes[name]]:
        raise ValueError(
            f"{run} was begun with other images: {' and '.join(changed)} ones of {store} have changed. "
            "Put the old store in its place, or give another --out"
        )
