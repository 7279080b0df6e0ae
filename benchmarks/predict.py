"""Time `fpgm predict` of a folder, from files to files, beside the bare network; interleaved in one run.

    python benchmarks/predict.py [--data FOLDER] [--count 48] [--net unet] [--size 256] [--rounds 2] [--engine torch]

The network alone takes the same images, prepared before, in passes of eight. fpgm also decodes the files, resizes the
probabilities to each image, finds the polyps and writes masks, probabilities and overlays. Without FOLDER (default:
$FPGM_REAL_DATA/Kvasir-SEG/images, else ../shared/data) phantoms saved as JPEG take its place. The target is 0.85.
"""

from __future__ import annotations

from harness import compare, take_turns

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fpgm.data.pictures import read_picture
from fpgm.data.synthetic import phantom
from fpgm.model import save_model
from fpgm.nets import build
from fpgm.runs.card import ModelCard
from fpgm.serving.engines import ENGINES, EngineName, open_engine
from fpgm.serving.export import export_onnx
from fpgm.serving.folders.inputs import Source, find_sources
from fpgm.serving.folders.predict import predict_files
from fpgm.serving.predictor import BATCH, Predictor


def make_predictor(folder: Path, net: str, size: int, engine: EngineName) -> Predictor:
    """A network with its first weights, and a threshold at which it finds something."""
    torch.manual_seed(0)
    built = build(net)
    save_model(folder, built, ModelCard(net=net, arguments={}, size=size, training={}))
    if engine in ("onnxruntime", "openvino"):
        export_onnx(folder, folder / "engine.onnx")
    return Predictor(open_engine(folder, engine), threshold=0.45)


def find_files(data: Path, folder: Path, count: int) -> list[Source]:
    """Take files of a data set, or draw some."""
    if not data.is_dir():
        folder.mkdir()
        for index in range(count):
            image = Image.fromarray(phantom("phantom-a", index, size=512).image).resize((622, 529))
            image.save(folder / f"{index}.jpg", quality=92)
        data = folder
    return find_sources([str(data)])[:count]


def main() -> None:
    """Let the folder and the bare network take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("FPGM_REAL_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default) / "Kvasir-SEG" / "images")
    parser.add_argument("--net", nargs="+", default=["unet", "lite_unet"])
    parser.add_argument("--engine", default="torch", choices=ENGINES)
    for name, value in {"count": 48, "size": 256, "rounds": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources = find_files(options.data, folder / "drawn", options.count)
        pictures = [read_picture(source.path.read_bytes()) for source in sources]
        for net in options.net:
            predictor = make_predictor(folder / net, net, options.size, options.engine)
            batches = [predictor.prepare(pictures[start : start + BATCH]) for start in range(0, len(pictures), BATCH)]

            def whole(predictor: Predictor = predictor) -> None:
                with tempfile.TemporaryDirectory() as out:
                    summary = predict_files(predictor, sources, Path(out))
                    assert summary.done == len(sources) and not summary.problems

            def bare(predictor: Predictor = predictor, batches: list[np.ndarray] = batches) -> None:
                for batch in batches:
                    predictor.engine.probabilities(batch)

            seconds = take_turns({"whole": whole, "bare": bare}, options.rounds, warm_up=1)
            each = {name: value / len(sources) for name, value in seconds.items()}
            what = f"folder, {net} of {options.size}², {options.engine}"
            target = 0.85 if (net, options.engine) == ("unet", "torch") else None
            against = "the network alone"
            compare("predict", what, each["whole"], each["bare"], against, unit="images/s", fast=True, target=target)


if __name__ == "__main__":
    main()
