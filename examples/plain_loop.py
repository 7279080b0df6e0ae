"""`SpectralAlignment` in a training loop of your own: few labelled images, more unlabelled ones, any network.

    python examples/plain_loop.py

Three lines are FPGM's: the prior learns from each labelled batch, an unlabelled batch is aligned to it, and the network
is asked to say the same of both views. The images are drawn phantoms; put your own tensors in their place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softmax

from fpgm.data.synthetic import phantom
from fpgm.spectrum import FrequencyPrior, SpectralAlignment

SIZE, LABELLED, UNLABELLED, STEPS = 64, 8, 16, 30


def draw(domain: str, count: int) -> tuple[Tensor, Tensor]:
    """Draw images (N, 3, S, S) in [0, 1] and masks (N, S, S) of 0 and 1."""
    samples = [phantom(domain, index, size=SIZE) for index in range(count)]
    images = torch.stack([torch.from_numpy(sample.image).permute(2, 0, 1) for sample in samples])
    return images / 255, torch.stack([torch.from_numpy(sample.mask) for sample in samples]).long()


def small_network() -> nn.Module:
    """Any network from images (B, 3, H, W) to logits (B, K, H, W)."""
    layers = [nn.Conv2d(3, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(8, 2, 1))


def train(steps: int = STEPS, seed: int = 0) -> tuple[FrequencyPrior, list[dict[str, float]]]:
    """Train, and return the prior and the losses of each step."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images, masks = draw("phantom-a", LABELLED)
    unlabelled, _ = draw("phantom-d", UNLABELLED)  # another clinic; its masks are not used
    net = small_network()
    optimizer = torch.optim.AdamW(net.parameters(), 3e-3)
    prior = FrequencyPrior(momentum=0.999, debias=True)
    align = SpectralAlignment(prior, gamma=(0.0, 0.1), reconstruction="ratio", clamp=True)
    losses = []
    for _ in range(steps):
        rows = torch.randint(LABELLED, (4,), generator=generator)
        others = unlabelled[torch.randint(UNLABELLED, (4,), generator=generator)]
        prior.update(images[rows], masks[rows])  # Stage I
        view = align(others, generator)  # Stage II
        supervised = cross_entropy(net(images[rows]), masks[rows])
        consistency = cross_entropy(net(view), softmax(net(others).detach(), 1))  # FPGM's third line
        optimizer.zero_grad()
        (supervised + 0.5 * consistency).backward()
        optimizer.step()
        losses.append({"supervised": supervised.item(), "consistency": consistency.item()})
    return prior, losses


if __name__ == "__main__":
    learned, history = train()
    print(f"prior of {int(learned.samples)} labelled images, {len(learned.profile)} radii")
    for number in (0, len(history) // 2, len(history) - 1):
        print(f"step {number + 1}: " + ", ".join(f"{name} {value:.3f}" for name, value in history[number].items()))
