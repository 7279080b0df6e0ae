"""Evaluated runs and stores written by hand, file by file, as `fpgm evaluate` and `fpgm data` write them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from fpgm import __version__
from fpgm.config import resolve
from fpgm.data import store as data_store
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.store import StoredImage
from fpgm.metrics import reported_metrics
from fpgm.runs.results import Result, read_result

Masks = NDArray[np.bool_]
HEADER = "id,dice,jaccard,hd95,asd,released_dice,released_jaccard,released_hd95,released_asd,predicted,true"


def bars(*widths: int, size: int = 16) -> Masks:
    """Masks (N, S, S) of a bar four pixels high and so many wide, from the left; 0 is an empty mask."""
    masks = np.zeros((len(widths), size, size), bool)
    for mask, width in zip(masks, widths, strict=True):
        mask[6:10, :width] = True
    return masks


def write_run(
    folder: Path,
    found: Mapping[str, Masks],
    truth: Mapping[str, Masks],
    *,
    method: str = "fpgm",
    seed: int = 0,
    arguments: Mapping[str, Any] | None = None,
    unseen: Sequence[str] = ("CVC-300", "BKAI-IGH", "phantom-e", "phantom-f"),
    labeled: str = "5%",
    iterations: int = 100,
    preset: str = "mini",
    protocol: str = "paper",
    left_out: str = "",
    optimizer: Mapping[str, Any] | None = None,
    store: Path = Path("gone"),
    ids: Mapping[str, Sequence[str]] | None = None,
    curve: Sequence[tuple[int, float, float]] = ((50, 0.5, 0.2), (100, 0.3, 0.4)),
) -> Result:
    """Write a run that was evaluated on the masks (N, S, S) it found, and read it back.

    Ids are `<data set>/0` and so on unless given; `curve` is step, supervised loss, validation Dice.
    """
    size = next(iter(found.values())).shape[-1]
    split = f"{protocol}-{left_out.lower()}-0" if left_out else f"{protocol}-0"
    usual = resolve(preset, "fpgm", {"store": store, "split": split}).arguments.model_dump(mode="json")
    usual, given = usual if method == "fpgm" else {}, dict(arguments or {})
    config = {
        "version": __version__,
        "preset": preset,
        "method": method,
        "departs": [f"arguments.{name}" for name in given if name not in usual or usual[name] != given[name]],
        "arguments": {**usual, **given},
        "data": {"store": str(store), "split": split, "labeled": labeled, "workers": 1},
        "net": {"name": "unet", "arguments": {}},
        "optimizer": {"name": "adamw", "lr": 0.001, **(optimizer or {})},
        "train": {"iterations": iterations, "seed": seed},
    }
    place = folder / "evaluation"
    place.mkdir(parents=True)
    (folder / "model").mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / "model" / "model.json").write_text('{"weights_sha256": "0"}')
    lines = ["step,sup,val_dice", *(f"{step},{loss},{dice}" for step, loss, dice in curve)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    sets = {}
    for name, masks in found.items():
        names = (ids or {}).get(name) or [str(number) for number in range(len(masks))]
        text = score_lines([f"{name}/{one}" for one in names], masks, truth[name])
        (place / f"{name}.csv").write_text(text)
        np.savez_compressed(place / f"{name}.npz", masks=np.packbits(masks, axis=-1))
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        sets[name] = {"images": len(masks), "unseen": name in unseen, "sha256": sha256}
    record = {"format": "fpgm-evaluation-2", "version": __version__, "weights_sha256": "0", "size": size}
    record |= {"protocol": protocol, "split": split, "split_seed": 0, "datasets": sets}
    record |= {"left_out": left_out} if left_out else {}
    (place / "evaluation.json").write_text(json.dumps(record))
    return read_result(folder)


def score_lines(ids: Sequence[str], found: Masks, truth: Masks) -> str:
    """Return the CSV file of a data set."""
    text = io.StringIO()
    print(HEADER, file=text)
    for id_, mask, true in zip(ids, found, truth, strict=True):
        values = [value for line in reported_metrics(mask, true) for value in line.values()]
        print(id_, *map(repr, map(float, values)), mask.sum(), true.sum(), sep=",", file=text)
    return text.getvalue()


def write_store(store: Path, dataset: str, masks: Masks, ids: Sequence[str] | None = None) -> None:
    """Write a prepared data set; image n is of shade n."""
    size = masks.shape[-1]
    images = [
        StoredImage(
            ImageRow(name, None, None, None, None, size, size, float(mask.mean())),
            np.full((size, size, 3), number, np.uint8),
            mask.astype(np.uint8),
            "0" * 64,
        )
        for number, (name, mask) in enumerate(zip(ids or map(str, range(len(masks))), masks, strict=True))
    ]
    header = {"name": dataset, "source": "drawn", "size": size, "rules": {}, "inputs": ""}
    data_store.write_store(store / dataset, images, lambda rows: Manifest.describe(rows, **header))
