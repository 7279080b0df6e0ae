"""ABD, adaptive bidirectional displacement (Chi et al., CVPR 2024): two networks, two views, tiles change places.

B images of H × W pixels, C channels, K classes; T = grid² tiles, numbered row by row.

* The second network is the same UNet as the first, initialised independently, where the official scripts take a
  pre-trained Swin-UNet: one backbone for all methods.
* One optimiser holds both networks; SGD moves each parameter by its own gradient, so it equals one for each.
* The weak view is the benchmark's (flips and quarter turns), without the official rotation by up to 20 degrees.
* Network 1, which sees weak views, is validated and shipped; the official scripts validate both.
* Once ABD-I is over, its passes are left out too; the official ACDC script goes on computing them with weight 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fpgm.data.batches.batch import Batch, Strength, Views
from fpgm.losses import cross_entropy_dice, dice, kl_divergence
from fpgm.methods.arguments import Count, Index, NonNegative
from fpgm.methods.base import Method, Step
from fpgm.methods.parts.pseudo_labels import label_notes
from fpgm.methods.parts.ramps import staircase
from fpgm.methods.parts.teachers import fresh_copy

SWAPPED = 0.5  # probability that ABD-I touches a labelled image


class ABD(Method):
    """A network on weak views and one on strong views teach each other, also on images with displaced tiles.

    L = Σ_n [L_sup,n + informative · L_I,n + λ(t) (L_cps,n + L_R,n)], n = 1, 2. ABD-I puts the least confident tile of
    the other view over the most confident one of labelled images, with its labels; ABD-R puts a confident and similar
    tile of the other view over the least confident one of unlabelled images, and the networks label the result anew.

    Each network makes three passes with gradient: its own view, labelled and unlabelled images together; both views
    after ABD-I; both views after ABD-R. Nothing masks what is cut out of unlabelled strong views (official).

    Args:
        net: any network that maps (B, 3, H, W) to logits (B, 2, H, W).
        informative: weight of ABD-I; 0 leaves it out. The official script for two classes has 1, the one for ACDC 2.
        informative_until: last step with ABD-I; None for no end. The official script for ACDC has 20,000.
        consistency: λ at the end of its rise; 0 leaves cross-supervision and ABD-R out.
        ramp: share of the training over which λ rises.
        grid: number of tiles along each side.
        candidates: number of most confident tiles among which ABD-R takes the most similar.
    """

    views = Views(
        strong=1,
        strong_labeled=True,
        strength=Strength(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, jitter=1.0, blur=0.0, cutout=0.5),
    )

    def __init__(
        self,
        net: nn.Module,
        informative: NonNegative = 1.0,
        informative_until: Index | None = None,
        consistency: NonNegative = 0.1,
        ramp: NonNegative = 1.0,
        grid: Count = 4,
        candidates: Count = 4,
    ) -> None:
        super().__init__()
        if not 1 <= candidates <= grid**2:
            raise ValueError(f"candidates is {candidates}: a grid of {grid} has {grid**2} tiles, give 1 to {grid**2}")
        self.net = net
        self.other = fresh_copy(net)
        self.informative, self.informative_until = informative, informative_until
        self.consistency, self.ramp = consistency, ramp
        self.grid, self.candidates = grid, candidates

    def predictor(self) -> nn.Module:
        """Network 1."""
        return self.net

    def check_batch(self, labelled: int, unlabelled: int, size: int) -> None:
        """Images are cut into equal tiles."""
        check_tiles(size, size, self.grid)

    def weight(self, step: Step) -> float:
        """λ(t)."""
        return self.consistency * staircase(step, self.ramp)

    def losses(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """All passes and terms of one step."""
        labelled, weight = len(batch.image_l), self.weight(step)
        z1 = self.net(torch.cat((batch.image_l, batch.weak_u)))
        z2 = self.other(torch.cat((batch.strong_l[0], batch.strong_u[0])))
        l1, l2, u1, u2 = z1[:labelled], z2[:labelled], z1[labelled:], z2[labelled:]
        terms = {"sup": cross_entropy_dice(l1, batch.mask_l) + cross_entropy_dice(l2, batch.strong_mask_l[0])}
        if self.informative and (self.informative_until is None or step.index <= self.informative_until):
            image, mask = self._informative(batch, l1, l2, step.generator)
            both = cross_entropy_dice(self.net(image), mask) + cross_entropy_dice(self.other(image), mask)
            terms["informative"] = self.informative * both
        if weight > 0:
            view = self._reliable(batch, u1, u2)
            terms["cross"] = weight * cross_dice(u1, u2)
            terms["reliable"] = weight * cross_dice(self.net(view), self.other(view))
        self.notes = label_notes(u1, u2)
        return terms

    def _informative(self, batch: Batch, z1: Tensor, z2: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """ABD-I: both views of the labelled images (2B, 3, H, W) and their masks, tiles moved in half of them."""
        moves = informative_moves(tile_confidence(z1, self.grid), tile_confidence(z2, self.grid))
        chosen = (torch.rand(len(z1), generator=generator) < SWAPPED).nonzero().squeeze(1).to(z1.device)
        image = displace(batch.image_l, batch.strong_l[0], moves, self.grid, chosen)
        mask = displace(batch.mask_l.unsqueeze(1), batch.strong_mask_l[0].unsqueeze(1), moves, self.grid, chosen)
        return image, mask.squeeze(1)

    def _reliable(self, batch: Batch, z1: Tensor, z2: Tensor) -> Tensor:
        """ABD-R: both views of the unlabelled images (2U, 3, H, W), one tile of each replaced."""
        confidence = tile_confidence(z1, self.grid), tile_confidence(z2, self.grid)
        logits = tile_logits(z1, self.grid), tile_logits(z2, self.grid)
        moves = reliable_moves(confidence, logits, self.candidates)
        return displace(batch.weak_u, batch.strong_u[0], moves, self.grid)


def cross_dice(z1: Tensor, z2: Tensor) -> Tensor:
    """Dice of each network (B, K, H, W) with the hard labels of the other, which carry no gradient, added up."""
    return dice(z1, z2.argmax(1)) + dice(z2, z1.argmax(1))


def check_tiles(height: int, width: int, grid: int) -> None:
    """Refuse sides that the grid does not divide."""
    if height % grid or width % grid:
        raise ValueError(f"an image of {height} x {width} has no {grid} x {grid} equal tiles: change grid or its size")


def to_tiles(image: Tensor, grid: int) -> Tensor:
    """Cut (B, C, H, W) into tiles (B, T, C, H / grid, W / grid)."""
    batch, channels, height, width = image.shape
    check_tiles(height, width, grid)
    tiles = image.reshape(batch, channels, grid, height // grid, grid, width // grid)
    return tiles.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def from_tiles(tiles: Tensor, grid: int) -> Tensor:
    """Put tiles together again; the inverse of `to_tiles`."""
    batch, _, channels, height, width = tiles.shape
    rows = tiles.reshape(batch, grid, grid, channels, height, width).permute(0, 3, 1, 4, 2, 5)
    return rows.reshape(batch, channels, grid * height, grid * width)


@torch.no_grad()
def tile_confidence(logits: Tensor, grid: int) -> Tensor:
    """Mean probability of the likeliest class in each tile: (B, K, H, W) → (B, T)."""
    confidence = logits.float().softmax(1).amax(1, keepdim=True)
    return to_tiles(confidence, grid).mean((2, 3, 4))


@torch.no_grad()
def tile_logits(logits: Tensor, grid: int) -> Tensor:
    """Mean logits of each tile: (B, K, H, W) → (B, T, K)."""
    return to_tiles(logits.float(), grid).mean((3, 4))


def informative_moves(confidence1: Tensor, confidence2: Tensor) -> Tensor:
    """ABD-I as moves (B, 4), see `displace`: over one's most confident tile the other's least confident one."""
    return torch.stack(
        (confidence1.argmax(1), confidence2.argmin(1), confidence2.argmax(1), confidence1.argmin(1)), dim=1
    )


def reliable_moves(confidence: tuple[Tensor, Tensor], logits: tuple[Tensor, Tensor], candidates: int) -> Tensor:
    """ABD-R as moves (B, 4), see `displace`: over one's least confident tile a confident, similar one of the other.

    Of the other view's `candidates` most confident tiles it is the nearest by KL(own ‖ other) between the softmax of
    mean logits; of equally near ones the most confident.

    Args:
        confidence: (B, T) of either view.
        logits: (B, T, K) of either view, means over each tile.
        candidates: number of most confident tiles to choose from.
    """
    moves = []
    for own, other in ((0, 1), (1, 0)):
        worst = confidence[own].argmin(1)
        best = confidence[other].topk(candidates, dim=1).indices
        mean = logits[own][torch.arange(len(worst), device=worst.device), worst]  # (B, K)
        distance = kl_divergence(mean.unsqueeze(2), logits[other].mT).gather(1, best)
        moves += [worst, best.gather(1, distance.argmin(1, keepdim=True)).squeeze(1)]
    return torch.stack(moves, dim=1)


def displace(view1: Tensor, view2: Tensor, moves: Tensor, grid: int, chosen: Tensor | None = None) -> Tensor:
    """Exchange one tile each way between two views of the same images; both are read as they were.

    Args:
        view1: (B, C, H, W), left unchanged; and
        view2: the same for the other view.
        moves: (B, 4), tile of view 1 to replace, tile of view 2 that replaces it, and the same with the views swapped.
        grid: number of tiles along each side.
        chosen: numbers of the images to change; all by default.

    Returns:
        (2B, C, H, W), both views, one after the other.
    """
    rows = torch.arange(len(view1), device=view1.device) if chosen is None else chosen
    tiles1, tiles2 = to_tiles(view1, grid), to_tiles(view2, grid)
    new1, new2 = tiles1.clone(), tiles2.clone()
    at1, from2, at2, from1 = moves[rows].unbind(1)
    new1[rows, at1] = tiles2[rows, from2]
    new2[rows, at2] = tiles1[rows, from1]
    return from_tiles(torch.cat((new1, new2)), grid)
