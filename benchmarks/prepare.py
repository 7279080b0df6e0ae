"""Time `fpgm data prepare` beside a plain Pillow loop, and reading a store beside decoding; interleaved in one run.

    python benchmarks/prepare.py [--data FOLDER] [--dataset Kvasir-SEG] [--count 1000] [--size 256] [--workers 2]

The plain loop decodes, resizes and writes two arrays, and no more. fpgm also hashes and checks the files, fingerprints
the pictures, resizes masks by area and writes a store that can be taken up again. Without FOLDER (default:
$FPGM_REAL_DATA, else ../shared/data) phantoms saved as JPEG and PNG take its place.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from fpgm.data.parallel import Workers
from fpgm.data.raw.layouts import Found, recognise
from fpgm.data.raw.prepare import prepare as prepare_dataset
from fpgm.data.store import Store
from fpgm.data.synthetic import phantom


def drawn(folder: Path, count: int) -> Path:
    """Save phantoms the way a data set comes."""
    for side in ("images", "masks"):
        (folder / "phantoms" / side).mkdir(parents=True)
    for index in range(count):
        image, mask = phantom("phantom-a", index, size=288)
        Image.fromarray(image).save(folder / f"phantoms/images/{index}.jpg", quality=93)
        Image.fromarray(mask * 255).save(folder / f"phantoms/masks/{index}.png")
    return folder


def picture(path: Path, size: int) -> np.ndarray:
    """Decode and resize one image."""
    return np.asarray(Image.open(path).convert("RGB").resize((size, size), Image.Resampling.BILINEAR))


def plain(found: Found, out: Path, size: int) -> None:
    """Do what a script of the field does."""
    images = np.stack([picture(pair.image, size) for pair in found.pairs])
    greys = (
        Image.open(str(pair.mask)).convert("L").resize((size, size), Image.Resampling.NEAREST) for pair in found.pairs
    )
    masks = np.stack([(np.asarray(grey) > 127).astype(np.uint8) for grey in greys])
    with h5py.File(out / "plain.h5", "w") as file:
        file["images"], file["masks"] = images, masks


def ours(found: Found, out: Path, size: int, count: int) -> None:
    """Do it with this package, starting the processes included."""
    with Workers(count) as workers:
        prepare_dataset(found, out, size, workers)


def preparing(found: Found, folder: Path, size: int, count: int, repeats: int) -> None:
    """Compare images per second with the plain loop's."""

    def fresh(function: Callable[[Path], None]) -> Callable[[], None]:
        def run() -> None:
            with tempfile.TemporaryDirectory(dir=folder) as out:
                function(Path(out))

        return run

    ours(found, folder / "kept", size, 1)
    sides = {
        "plain": fresh(lambda out: plain(found, out, size)),
        "1 process": fresh(lambda out: ours(found, out, size, 1)),
        f"{count} processes": fresh(lambda out: ours(found, out, size, count)),
        "up to date": lambda: ours(found, folder / "kept", size, 1),
    }
    seconds = {side: value / len(found.pairs) for side, value in take_turns(sides, repeats, warm_up=0).items()}
    other = seconds.pop("plain")
    for side, value in seconds.items():
        asked = {"1 process": 0.95, "2 processes": 1.7}.get(side)
        what = f"{found.name}, {side}"
        compare("prepare", what, value, other, "plain Pillow loop", unit="images/s", fast=True, target=asked)


def reading(found: Found, store: Store, size: int, batch: int = 8, batches: int = 50) -> None:
    """Compare a random batch from the store with one from the files."""
    rng = np.random.default_rng(0)
    sides = {
        "store": lambda: store.images(rng.integers(0, len(store), batch)),
        "files": lambda: [picture(found.pairs[i].image, size) for i in rng.integers(0, len(store), batch)],
    }
    seconds = take_turns(sides, batches)
    what = f"{batch} random images from the store"
    compare("prepare", what, seconds["store"], seconds["files"], "decode and resize", fast=True)


def main() -> None:
    """Measure on one data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("FPGM_REAL_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--dataset", default="Kvasir-SEG")
    for name, value in {"count": 1000, "size": 256, "workers": os.cpu_count() or 1, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = (options.data / options.dataset).is_dir()
        root = options.data / options.dataset if real else drawn(folder / "raw", options.count)
        (found,) = recognise(root)
        found = replace(found, pairs=found.pairs[: options.count])
        print(f"{found.name}, {len(found.pairs)} pairs, {options.size} x {options.size}")
        preparing(found, folder, options.size, options.workers, options.repeats)
        reading(found, Store.open(folder / "kept" / found.name), options.size)


if __name__ == "__main__":
    main()
