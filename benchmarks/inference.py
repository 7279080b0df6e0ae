"""Time the network alone, all engines in one run: eager, bfloat16, compiled, onnxruntime, OpenVINO; 1 and 8 images.

    python benchmarks/inference.py [--rounds 20] [--net unet] [--skip compiled]

Each side takes prepared images of 256 x 256 as numpy arrays to foreground probabilities, as `fpgm predict` does. The
targets are that onnxruntime and OpenVINO beat eager torch, and that the fastest takes 1 / 2.4 of its time for one image
of the paper's UNet. `fpgm predict RUN` computes eagerly in float32 with channels last: it needs no export and no
compiler, starts at once and gives the masks that were evaluated. `compiled` needs a compiler and a long first call for
each number of images; bfloat16 changes masks a little; who wants speed lets `fpgm export --engine auto` choose.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fpgm.data.synthetic import phantom
from fpgm.model import load_model, save_model
from fpgm.nets import build
from fpgm.runs.card import ModelCard
from fpgm.serving.export import export_onnx
from fpgm.serving.onnx_engine import OnnxEngine
from fpgm.serving.torch_engine import TorchEngine, foreground, has_bfloat16

SIZE = 256
Engine = Callable[[NDArray[np.float32]], object]


def make_engines(folder: Path, skip: Sequence[str] = ()) -> dict[str, Engine]:
    """Return each way to compute a network, the plainest first."""
    net, _ = load_model(folder)

    @torch.inference_mode()
    def plain(batch: NDArray[np.float32]) -> object:
        return foreground(net(torch.from_numpy(batch))).numpy()

    engines: dict[str, Engine] = {
        "eager": plain,
        "eager, channels last (default)": TorchEngine(folder, "cpu", "float32").probabilities,
    }
    if has_bfloat16():  # seconds for an image where it is emulated
        engines["eager, bfloat16"] = TorchEngine(folder, "cpu", "bfloat16").probabilities
    if "compiled" in skip:
        pass
    elif shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"):
        compiled = TorchEngine(folder, "cpu", "float32")
        compiled._net.compile(dynamic=False)
        engines["compiled, channels last"] = compiled.probabilities
    else:
        print("  no C++ compiler: compiled is left out")
    path = export_onnx(folder, folder / "model.onnx").path
    engines["onnxruntime"] = OnnxEngine(path, "cpu", "onnxruntime").probabilities
    if find_spec("openvino"):
        engines["openvino"] = OnnxEngine(path, "cpu", "openvino").probabilities
        if has_bfloat16():
            engines["openvino, bfloat16"] = OnnxEngine(path, "cpu", "openvino-bfloat16").probabilities
    else:
        print("  openvino is not installed: it is left out")
    return engines


def make_model(folder: Path, net: str = "unet") -> None:
    """Write a network with its first weights; what it finds does not matter here."""
    torch.manual_seed(0)
    save_model(folder, build(net), ModelCard(net=net, arguments={}, size=SIZE, training={}))


def make_batch(count: int) -> NDArray[np.float32]:
    """Return phantoms (B, 3, S, S)."""
    pixels = np.stack([phantom("phantom-a", index, size=SIZE).image for index in range(count)])
    return np.divide(pixels.transpose(0, 3, 1, 2), 255, dtype=np.float32)


def main() -> None:
    """Let the engines take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--net", nargs="+", default=["unet", "lite_unet"])
    parser.add_argument("--skip", nargs="+", default=[], choices=["compiled"])
    options = parser.parse_args()
    for net in options.net:
        with tempfile.TemporaryDirectory() as temporary:
            make_model(Path(temporary), net)
            measure(net, make_engines(Path(temporary), options.skip), options.rounds)


def measure(net: str, engines: dict[str, Engine], rounds: int) -> None:
    """Compare all engines of a network with eager torch."""
    for count in (1, 8):
        sides = {name: partial(engine, make_batch(count)) for name, engine in engines.items()}
        first = {name: timed(side) for name, side in sides.items()}
        times = take_turns(sides, rounds)
        print(f"first calls: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in first.items())}")
        eager = times.pop("eager")
        fastest = min(times, key=times.__getitem__)
        for name, seconds in times.items():
            asked = {"onnxruntime": 1.0, "openvino": 1.0}
            if (net, count) == ("unet", 1):
                asked[fastest] = 2.4
            what = f"{net}, {count} × 3 × {SIZE}², {name}"
            compare("inference", what, seconds, eager, "eager torch", target=asked.get(name), fast=True)


def timed(side: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    side()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
