"""Time `fpgm data prepare` beside a plain Pillow loop, and reading a store beside decoding; interleaved in one run.

    python benchmarks/prepare.py [--data FOLDER] [--dataset Kvasir-SEG] [--count 1000] [--size 256] [--workers 2]

The plain loop decodes, resizes and writes two arrays, and no more. fpgm also hashes and checks the files, fingerprints
the pictures, resizes masks by area and writes a store that can be taken up again. Without FOLDER (default:
$FPGM_REAL_DATA, else ../shared/data) phantoms saved as JPEG and PNG take its place.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from fpgm.data.building import build
from fpgm.data.layouts import Found, recognise
from fpgm.data.parallel import Workers
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
        build(found, out, size, workers)


def preparing(found: Found, folder: Path, size: int, count: int, repeats: int) -> None:
    """Print images per second; the sides take turns."""
    sides: dict[str, Callable[[Path], None]] = {
        "plain Pillow loop": lambda out: plain(found, out, size),
        "fpgm, 1 process": lambda out: ours(found, out, size, 1),
        f"fpgm, {count} processes": lambda out: ours(found, out, size, count),
        "fpgm, up to date": lambda out: ours(found, folder / "kept", size, 1),
    }
    ours(found, folder / "kept", size, 1)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side, function in sides.items():
            with tempfile.TemporaryDirectory(dir=folder) as out:
                start = time.perf_counter()
                function(Path(out))
                seconds[side].append(time.perf_counter() - start)
    for side, times in seconds.items():
        rates = [len(found.pairs) / value for value in times]
        print(f"{side:22s} {statistics.median(rates):8.0f} images/s (best {max(rates):.0f})")


def reading(found: Found, store: Store, size: int, batch: int = 8, batches: int = 50) -> None:
    """Print the time of a random batch from the store and from the files."""
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {"store, random read": [], "decode and resize": []}
    for _ in range(batches):
        rows = rng.integers(0, len(store), batch)
        start = time.perf_counter()
        store.images(rows)
        middle = time.perf_counter()
        for row in rows:
            picture(found.pairs[row].image, size)
        for side, value in zip(times, (middle - start, time.perf_counter() - middle), strict=True):
            times[side].append(value / batch)
    for side, values in times.items():
        print(f"{side:22s} {statistics.median(values) * 1e6:8.0f} us/image")


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
