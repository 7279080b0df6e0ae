"""The spectral core against the Fourier transform it cannot do without, and against the released loop."""

from __future__ import annotations

from harness import compare, take_turns

import torch
from torch import Tensor

from fpgm.spectrum import FrequencyPrior, SpectralAlignment, edge_mask, generic_profile, to_grey

# pixels and images of a batch
SIZES = ((64, 2), (64, 8), (64, 32), (128, 2), (128, 8), (128, 32), (256, 2), (512, 2), (512, 8), (1024, 2))


def bare_pair(image: Tensor) -> Tensor:
    """Transform there and back: the floor."""
    return torch.fft.irfft2(torch.fft.rfft2(image, norm="ortho"), s=image.shape[-2:], norm="ortho")


def plain(image: Tensor, prior: Tensor, gamma: float) -> Tensor:
    """The same mathematics without any care for speed: abs, angle, polar, tables made anew."""
    height, width = image.shape[-2:]
    spectrum = torch.fft.rfft2(image, norm="ortho")
    rows = torch.fft.fftfreq(height, 1 / height)[:, None]
    columns = torch.fft.rfftfreq(width, 1 / width)
    ring = (rows**2 + columns**2).sqrt().long().clamp(max=len(prior)).flatten()
    weight = torch.full_like(columns, 2).index_fill(0, torch.tensor([0, len(columns) - 1]), 1).repeat(height)
    sizes = torch.zeros(len(prior) + 1).index_add_(0, ring, weight)
    sums = torch.zeros(*image.shape[:2], len(prior) + 1).index_add_(-1, ring, spectrum.abs().flatten(-2) * weight)
    own = (sums / sizes)[..., :-1]
    energy = own.sum(-1, keepdim=True)
    new = ((1 - gamma) * own / energy + gamma * prior / prior.sum()) * energy
    target = new[..., ring.clamp(max=len(prior) - 1)].view(spectrum.shape)
    return torch.fft.irfft2(torch.polar(target, spectrum.angle()), s=image.shape[-2:], norm="ortho")


def released_loop(image: Tensor, prior: Tensor, gamma: float) -> Tensor:
    """As the released code goes about it: the profile plane by plane and radius by radius, each with its own mask."""
    height, width = image.shape[-2:]
    y, x = torch.meshgrid(torch.arange(height) - height // 2, torch.arange(width) - width // 2, indexing="ij")
    ring = (y**2 + x**2).sqrt().long()
    spectrum = torch.fft.fft2(image, norm="ortho")
    centred = torch.fft.fftshift(spectrum.abs(), dim=(-2, -1)).view(-1, height, width)
    own = torch.zeros(len(centred), len(prior))
    for plane in range(len(centred)):
        for radius in range(len(prior)):
            inside = ring == radius
            if inside.any():
                own[plane, radius] = centred[plane, inside].mean()
    energy = own.sum(1, keepdim=True)
    new = ((1 - gamma) * own / energy + gamma * prior / prior.sum()) * energy
    target = torch.fft.ifftshift(new[:, ring.clamp(max=len(prior) - 1)], dim=(-2, -1)).view(spectrum.shape)
    return torch.fft.ifft2(target * torch.exp(1j * spectrum.angle()), norm="ortho").real


def peak_memory(run: SpectralAlignment, image: Tensor) -> int:
    """Return the largest number of bytes torch held at once during a forward, beyond what it held before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run(image)
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def bench_alignment(image: Tensor, prior: Tensor, gamma: float) -> None:
    """Compare the forward pass with its floor, with plain code and with the released loop."""
    align = SpectralAlignment(prior, gamma)
    worst = max(float((other(image, prior, gamma) - align(image)).abs().max()) for other in (plain, released_loop))
    what = "SpectralAlignment of " + "×".join(map(str, image.shape))
    print(f"{what}, {image.dtype} (largest difference between sides {worst:.0e})")
    pair, ours, plainly = take_turns(
        {
            "pair": lambda: bare_pair(image),
            "ours": lambda: align(image),
            "plain": lambda: plain(image, prior, gamma),
        },
        rounds=100,
    ).values()
    loop = take_turns({"loop": lambda: released_loop(image, prior, gamma)}, rounds=5, warm_up=1)["loop"]
    compare("alignment", what, ours, pair, "bare rfft2 + irfft2", target=2)
    compare("alignment", what, ours, plainly, "plain vectorised code", fast=True)
    compare("alignment", what, ours, loop, "the released loop", target=300, fast=True)
    compare("alignment", "a bare rfft2 + irfft2", pair, loop, "the released loop", fast=True)
    extra = peak_memory(align, image) / 2**20
    compare("alignment", "peak extra memory", extra, image.nbytes / 2**20, "the input", target=4, unit="MB")


def bench_size(image: Tensor) -> None:
    """Compare the forward pass with its floor alone."""
    align = SpectralAlignment(generic_profile(image.shape[-1] // 2), 0.05)
    rounds = max(10, min(300, 2**23 // image.numel()))
    seconds = take_turns({"pair": lambda: bare_pair(image), "ours": lambda: align(image)}, rounds=rounds)
    what = "SpectralAlignment of " + "×".join(map(str, image.shape))
    compare("alignment", what, seconds["ours"], seconds["pair"], "bare rfft2 + irfft2", target=2)


def bench_prior(image: Tensor) -> None:
    """Compare a prior update with the transform and the filter in it."""
    mask = torch.zeros(len(image), *image.shape[-2:], dtype=torch.long)
    mask[:, 60:200, 80:180] = 1
    learner, grey = FrequencyPrior(), to_grey(image)
    seconds = take_turns(
        {
            "floor": lambda: (torch.fft.rfft2(grey, norm="ortho"), edge_mask(mask)),
            "ours": lambda: learner.update(image, mask),
        },
        rounds=100,
    )
    what = f"FrequencyPrior.update, {len(image)} images of 256²"
    compare("prior", what, seconds["ours"], seconds["floor"], "rfft2 of grey + edge filter", target=2)


def main() -> None:
    """Print the ratios the design asks for."""
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(8, 3, 256, 256, generator=generator)
    bench_alignment(image, generic_profile(128), 0.05)
    for size, count in SIZES:
        bench_size(torch.rand(count, 3, size, size, generator=generator))
    bench_prior(image)


if __name__ == "__main__":
    main()
