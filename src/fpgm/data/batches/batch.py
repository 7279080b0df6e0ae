"""The batch of one training step, and the views a method declares for it.

B labelled and U unlabelled images of S × S pixels; `_l` labelled, `_u` unlabelled, `_m` mix partner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How a strong view departs from its weak view: cut-out, then colour jitter, then Gaussian blur.

    The defaults are the paper's. Brightness, contrast and saturation are multiplied by U(1 − x, 1 + x), the hue is
    turned by U(−x, x) of a full circle, the blur's σ is U(0.1, 2.0) pixels.

    Attributes:
        jitter, blur, cutout: the probability of each step; cut-out fills a box with noise and clears its mask.
    """

    brightness: float = 0.5
    contrast: float = 0.5
    saturation: float = 0.5
    hue: float = 0.25
    jitter: float = 0.8
    blur: float = 0.5
    cutout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for entry in fields(self):
            value, limit = getattr(self, entry.name), 0.5 if entry.name == "hue" else 1.0
            if not 0 <= value <= limit:
                raise ValueError(f"strength {entry.name} is {value}: give a number from 0 to {limit}")


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """How weak views are moved besides flips and quarter turns: stretched, then rotated, then shifted.

    Pixels from outside the picture are black and background. The defaults move nothing.

    Attributes:
        probability: share of the images that are moved.
        scale: range of the size, drawn evenly in its logarithm; 1 keeps it.
        aspect: width over height is drawn from 1 / aspect to aspect, evenly in its logarithm.
        rotation: largest angle in degrees, to either side.
        shift: largest shift along each axis, in halves of the side.
    """

    probability: float = 0.0
    scale: tuple[float, float] = (0.7, 1.4)
    aspect: float = 1.2
    rotation: float = 45.0
    shift: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if not 0 <= self.probability <= 1:
            raise ValueError(f"the probability of a move is {self.probability}: give a number from 0 to 1")
        if not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"the scale is {self.scale}: give the lowest and the highest, both above 0")
        if self.aspect < 1:
            raise ValueError(f"the aspect is {self.aspect}: give 1 or more")
        if not 0 <= self.rotation <= 180 or not 0 <= self.shift <= 1:
            raise ValueError(
                f"rotation is {self.rotation} and shift {self.shift}: give 0 to 180 degrees and 0 to 1 half sides"
            )


@dataclass(frozen=True, kw_only=True)
class Views:
    """Views that the stream prepares for a method, besides weak views of labelled images and their masks.

    Attributes:
        unlabeled: weak views of unlabelled images; without them the unlabelled pool is never read.
        strong: number of strong views per unlabelled image: 0, 1 or 2.
        strong_labeled: one strong view per labelled image, with its mask.
        cutmix: one CutMix box per strong view.
        mix: a partner batch from a separate shuffle, with as many strong views.
        strength: strength of every strong view.
    """

    unlabeled: bool = True
    strong: int = 0
    strong_labeled: bool = False
    cutmix: bool = False
    mix: bool = False
    strength: Strength = field(default_factory=Strength)

    def __post_init__(self) -> None:
        """Refuse views that contradict each other."""
        if self.strong not in (0, 1, 2):
            raise ValueError(f"strong is {self.strong}: a method may declare 0, 1 or 2 strong views")
        if not self.unlabeled and (self.strong or self.mix):
            raise ValueError("strong views and mix partners are of unlabelled images: declare unlabeled=True")
        if self.cutmix and not self.strong:
            raise ValueError("CutMix boxes are pasted into strong views: declare strong=1 or strong=2")


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The images of one step on one process; there is no field for masks of unlabelled images.

    Images are float32 in [0, 1]. Views of one image are pixel-aligned. A view that was not declared is
    missing from its tuple, or has no rows.

    Attributes:
        index: the step, from 0.
        image_l: (B, 3, S, S), weak views of labelled images.
        mask_l: (B, S, S) int64 in {0, 1}, moved with its image.
        strong_l: 0 or 1 of (B, 3, S, S), strong view of the same, and
        strong_mask_l: 0 or 1 of (B, S, S), its mask, 0 where the view is cut out.
        weak_u: (U, 3, S, S), weak views of unlabelled images.
        strong_u: 0 to 2 of (U, 3, S, S), strong views of the same.
        boxes_u: one (U, S, S) bool per strong view, true inside its CutMix box, or none.
        weak_m: (U, 3, S, S), weak views of the mix partners.
        strong_m: as many strong views of the partners as `strong_u` has.
        id_l, id_u, id_m: "<data set>/<id>" of each row.
    """

    index: int
    image_l: Tensor
    mask_l: Tensor
    strong_l: tuple[Tensor, ...]
    strong_mask_l: tuple[Tensor, ...]
    weak_u: Tensor
    strong_u: tuple[Tensor, ...]
    boxes_u: tuple[Tensor, ...]
    weak_m: Tensor
    strong_m: tuple[Tensor, ...]
    id_l: tuple[str, ...]
    id_u: tuple[str, ...]
    id_m: tuple[str, ...]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory, from where a copy to a GPU need not block."""
        return self._map(Tensor.pin_memory)

    def halved(self) -> Batch:
        """The same batch at half the side: an image takes the mean of four pixels, a mask their majority."""
        return self._map(_halve)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Tensor | tuple[Tensor, ...]] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor):
                changed[entry.name] = change(value)
            elif isinstance(value, tuple) and not entry.name.startswith("id_"):
                changed[entry.name] = tuple(map(change, value))
        return replace(self, **changed)  # type: ignore[arg-type]  # a field keeps its type


def _halve(tensor: Tensor) -> Tensor:
    """Images (B, 3, S, S), masks (B, S, S) or boxes (B, S, S) at half the side; ties of a mask are background."""
    if tensor.dtype == torch.bool:
        return tensor[..., ::2, ::2]
    if tensor.ndim == 3:
        return (F.avg_pool2d(tensor[:, None].float(), 2) > 0.5)[:, 0].to(tensor.dtype)
    return F.avg_pool2d(tensor, 2) if len(tensor) else tensor[..., ::2, ::2]
