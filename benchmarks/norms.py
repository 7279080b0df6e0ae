"""A training step of the UNet by its normalisation: 16 images of 64 x 64 and of 128 x 128, forward and backward pass.

    python benchmarks/norms.py [--rounds 15]

On one thread, in channels-last memory, in float32, and bfloat16 where the processor has it. All sides take turns. A
step counts with its processor time; what is compared is the median of its ratio to the step of batch norm in the same
turn. Batch norm takes part twice: how far the second is from the first is the machine's part. Last, a network that
evaluates with a share of each image's own statistics beside the same one without.
"""

from __future__ import annotations

from harness import compare, precisions

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from fpgm.nets import UNet, build
from fpgm.nets.norms import NORMS, InstanceNormLeakyReLU
from fpgm.nets.statistics import blend

COUNT, SIZES, TARGET, TARGET_OWN = 16, (64, 128), 1.05, 1.5
TORCHS, AGAIN = "torch's InstanceNorm2d", "batch again"


def make_nets() -> dict[str, nn.Module]:
    """Return the UNet with each normalisation, with batch norm again, and with torch's layer in place of ours."""
    nets: dict[str, nn.Module] = {norm: UNet(dropout=0, norm=norm) for norm in NORMS}
    nets[AGAIN], nets[TORCHS] = UNet(dropout=0), UNet(dropout=0, norm="instance")
    for block in [module for module in nets[TORCHS].modules() if isinstance(module, nn.Sequential)]:
        for index, layer in enumerate(block):
            if isinstance(layer, InstanceNormLeakyReLU):
                block[index] = nn.InstanceNorm2d(layer.num_features, affine=True)
                block[index + 1] = nn.LeakyReLU(inplace=True)
    return {name: net.to(memory_format=torch.channels_last).train() for name, net in nets.items()}


def make_step(net: nn.Module, size: int, bfloat16: bool) -> Callable[[], None]:
    """Return a forward and a backward pass of the same noise images."""
    images = torch.rand(COUNT, 3, size, size, generator=torch.Generator().manual_seed(0))
    images = images.to(memory_format=torch.channels_last)

    def step() -> None:
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            logits = net(images)
        logits.float().square().mean().backward()

    return step


def make_evaluations(size: int) -> dict[str, Callable[[], object]]:
    """Return evaluations of noise images, with running statistics alone and with a share of each image's own."""
    images = torch.rand(COUNT, 3, size, size, generator=torch.Generator().manual_seed(0))
    images = images.to(memory_format=torch.channels_last)
    net = build("lite_unet").to(memory_format=torch.channels_last).eval()
    return {"batch": lambda: net(images), "own": partial(blend(net, 0.2).eval(), images)}


def processor_times(steps: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 2) -> dict[str, list[float]]:
    """Return the seconds of each side's steps, turn by turn."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(warm_up + rounds):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if turn >= warm_up:
                spent[name].append(time.process_time() - start)
    return spent


def main() -> None:
    """Print each normalisation beside batch norm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns of every side, at least 2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    nets = make_nets()
    for size in SIZES:
        for precision in precisions():
            steps = {name: make_step(net, size, precision == "bfloat16") for name, net in nets.items()}
            spent = processor_times(steps, options.rounds)
            batch = spent.pop("batch")
            unit = statistics.median(batch)
            for name, values in spent.items():
                low, ratio, high = statistics.quantiles([a / b for a, b in zip(values, batch, strict=True)], n=4)
                what = f"{name}, {COUNT} images of {size}², {precision}"
                compare("norms", what, ratio * unit, unit, "batch", target=TARGET if name in NORMS else None)
                print(f"    half of the ratios lie from {low:.3f} to {high:.3f}")
        with torch.inference_mode():
            plain, own = map(statistics.median, processor_times(make_evaluations(size), options.rounds).values())
        what = f"evaluation with an image's own statistics, lite_unet, {COUNT} of {size}²"
        compare("norms", what, own, plain, "batch", target=TARGET_OWN)


if __name__ == "__main__":
    main()
