"""Time the network alone, all engines in one run: eager, bfloat16, compiled, onnxruntime; 1 and 8 images of 256 x 256.

    python benchmarks/inference.py [--rounds 20]

Each side takes prepared images as numpy arrays to foreground probabilities, as `fpgm predict` does. The target is that
onnxruntime beats eager torch. `fpgm predict RUN` computes eagerly in float32 with channels last: it needs no export and
no compiler, starts at once and gives the masks that were evaluated. `compiled` needs a compiler and a long first call
for each number of images; bfloat16 changes masks a little; who wants speed exports to ONNX once.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fpgm.data.synthetic import phantom
from fpgm.model import load_model, save_model
from fpgm.nets import UNet
from fpgm.runs.card import ModelCard
from fpgm.serving.export import export_onnx
from fpgm.serving.onnx_engine import OnnxEngine
from fpgm.serving.torch_engine import TorchEngine, foreground

SIZE = 256
Engine = Callable[[NDArray[np.float32]], object]


def make_engines(folder: Path) -> dict[str, Engine]:
    """Return each way to compute the paper's network, the plainest first."""
    net, _ = load_model(folder)

    @torch.inference_mode()
    def plain(batch: NDArray[np.float32]) -> object:
        return foreground(net(torch.from_numpy(batch))).numpy()

    engines: dict[str, Engine] = {
        "eager": plain,
        "eager, channels last (default)": TorchEngine(folder, "cpu", "float32").probabilities,
        "eager, bfloat16": TorchEngine(folder, "cpu", "bfloat16").probabilities,
    }
    if shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"):
        compiled = TorchEngine(folder, "cpu", "float32")
        compiled._net.compile(dynamic=False)
        engines["compiled, channels last"] = compiled.probabilities
    else:
        print("  no C++ compiler: compiled is left out")
    engines["onnxruntime"] = OnnxEngine(export_onnx(folder, folder / "model.onnx").path, "cpu").probabilities
    return engines


def make_model(folder: Path) -> None:
    """Write the paper's UNet with its first weights; what it finds does not matter here."""
    torch.manual_seed(0)
    save_model(folder, UNet(), ModelCard(net="unet", arguments={}, size=SIZE, training={}))


def make_batch(count: int) -> NDArray[np.float32]:
    """Return phantoms (B, 3, S, S)."""
    pixels = np.stack([phantom("phantom-a", index, size=SIZE).image for index in range(count)])
    return np.divide(pixels.transpose(0, 3, 1, 2), 255, dtype=np.float32)


def main() -> None:
    """Let the engines take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        make_model(Path(temporary))
        engines = make_engines(Path(temporary))
        for count in (1, 8):
            sides = {name: partial(engine, make_batch(count)) for name, engine in engines.items()}
            first = {name: timed(side) for name, side in sides.items()}
            times = take_turns(sides, options.rounds)
            print(f"first calls: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in first.items())}")
            eager = times.pop("eager")
            for name, seconds in times.items():
                what, target = f"{count} × 3 × {SIZE}², {name}", 1 if name == "onnxruntime" else None
                compare("inference", what, seconds, eager, "eager torch", target=target, fast=True)


def timed(side: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    side()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
