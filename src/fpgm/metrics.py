"""Dice, Jaccard, HD95 and ASD of one pair of masks, exact, with numpy and scipy alone.

H, W are rows and columns of a mask. The surface of a mask is the mask minus its 4-neighbour erosion; what
lies outside the image is background, so a mask that touches the frame has a surface there.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import distance_transform_edt
from scipy.spatial.distance import cdist

OnEmpty: TypeAlias = Literal["penalise", "released", "nan"]
HD95: TypeAlias = Literal["pooled", "larger"]
ASD: TypeAlias = Literal["symmetric", "directed"]
Mask: TypeAlias = NDArray[np.bool_]
Distances: TypeAlias = NDArray[np.float64]


def pair_metrics(
    pred: ArrayLike,
    true: ArrayLike,
    *,
    on_empty: OnEmpty,
    spacing: tuple[float, float] = (1.0, 1.0),
    hd95: HD95 = "pooled",
    asd: ASD = "symmetric",
) -> dict[str, float]:
    """Compare a predicted mask with the true one.

    Args:
        pred: predicted mask, (H, W), boolean or 0/1.
        true: true mask, same shape.
        on_empty: scores of an empty mask.
            "penalise": one empty: Dice and Jaccard 0, distances the image diagonal; both empty: 1, 1, 0, 0.
            "released": empty prediction: all four 0 whatever the truth, so missed polyps get distances of 0.
            Empty truth alone, where the released code stops: Dice and Jaccard 0, distances NaN.
            "nan": undefined values are NaN: distances if either mask is empty, Dice and Jaccard if both are.
        spacing: height and width of a pixel; distances are in its unit.
        hd95: "pooled" is the 95th percentile of the distances of both directions together (medpy's);
            "larger" is the larger of the two directed percentiles (MONAI's).
        asd: "symmetric" is the mean distance of both directions together (medpy's assd, MONAI's symmetric);
            "directed" is the mean from the surface of the prediction to that of the truth (medpy's asd).

    Returns:
        `dice` and `jaccard` in [0, 1], `hd95` and `asd` in units of `spacing`.
    """
    _check_name("on_empty", on_empty, get_args(OnEmpty))
    _check_name("hd95", hd95, get_args(HD95))
    _check_name("asd", asd, get_args(ASD))
    a, b = _as_masks(pred, true)
    if len(spacing) != 2 or not all(0 < s < math.inf for s in spacing):
        raise ValueError(f"spacing is {spacing}: give the height and the width of a pixel, both positive")

    if not (a.any() and b.any()):
        diagonal = math.hypot(a.shape[0] * spacing[0], a.shape[1] * spacing[1])
        return _empty(not a.any(), not b.any(), on_empty, diagonal)
    forth, back = _surface_distances(a, b, spacing)
    return {
        **_overlap(a, b),
        "hd95": _percentile95(forth, back) if hd95 == "pooled" else max(_percentile95(forth), _percentile95(back)),
        "asd": _mean(forth, back) if asd == "symmetric" else _mean(forth),
    }


def reported_metrics(pred: ArrayLike, true: ArrayLike) -> tuple[dict[str, float], dict[str, float]]:
    """Compare a predicted mask with the true one by both rules of reports: ours, and that of the released code.

    The first is `pair_metrics` with "penalise". The second is with "released" and the directed ASD, which is medpy's
    `dc`, `jc`, `hd95` and `asd`, or 0 in all four for an empty prediction. Surfaces are compared once for both.

    Args:
        pred: predicted mask, (H, W), boolean or 0/1.
        true: true mask, same shape.
    """
    a, b = _as_masks(pred, true)
    if not (a.any() and b.any()):
        return pair_metrics(a, b, on_empty="penalise"), pair_metrics(a, b, on_empty="released")
    forth, back = _surface_distances(a, b, (1.0, 1.0))
    shared = {**_overlap(a, b), "hd95": _percentile95(forth, back)}
    return {**shared, "asd": _mean(forth, back)}, {**shared, "asd": _mean(forth)}


def _overlap(a: Mask, b: Mask) -> dict[str, float]:
    """Dice and Jaccard; at least one of the masks is not empty."""
    common, total = np.count_nonzero(a & b), np.count_nonzero(a) + np.count_nonzero(b)
    return {"dice": 2.0 * common / total, "jaccard": common / (total - common)}


def _surface_distances(a: Mask, b: Mask, spacing: tuple[float, float]) -> tuple[Distances, Distances]:
    """Distance of every surface pixel of `a` to the surface of `b`, and of `b` to `a`; neither is empty."""
    crop = _bounding_box(a | b)
    edge_a, edge_b = _surface(a[crop]), _surface(b[crop])
    points_a, points_b = _points(edge_a, spacing), _points(edge_b, spacing)
    # Both ways are exact. A table of all pairs (at most 16 MB) is quickest for closed shapes; a transform
    # costs per pixel of the crop, which pays for noise, where nearly all is surface.
    if len(points_a) * len(points_b) <= min(32 * edge_a.size, 2**21):
        squared = cdist(points_a, points_b, "sqeuclidean")
        return np.sqrt(squared.min(axis=1)), np.sqrt(squared.min(axis=0))
    return (
        distance_transform_edt(~edge_b, sampling=spacing)[edge_a],
        distance_transform_edt(~edge_a, sampling=spacing)[edge_b],
    )


def _points(edge: Mask, spacing: tuple[float, float]) -> Distances:
    """Positions (N, 2) of the true pixels, in units of `spacing`."""
    index = np.flatnonzero(edge)
    points = np.empty((len(index), 2))
    np.multiply(index // edge.shape[1], spacing[0], out=points[:, 0])
    np.multiply(index % edge.shape[1], spacing[1], out=points[:, 1])
    return points


def _surface(mask: Mask) -> Mask:
    """The pixels of `mask` (H, W) with a 4-neighbour outside it."""
    padded = np.zeros((mask.shape[0] + 2, mask.shape[1] + 2), dtype=np.bool_)
    padded[1:-1, 1:-1] = mask
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.greater(mask, inner)


def _bounding_box(mask: Mask) -> tuple[slice, slice]:
    """The smallest rectangle of slices that holds a mask which is not empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _percentile95(*distances: Distances) -> float:
    """95th percentile, linear between ranks as `np.percentile`, whose overhead is ten times this."""
    ordered = np.sort(np.concatenate(distances))
    rank = 0.95 * (len(ordered) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return float(low + (high - low) * (rank % 1.0))


def _mean(*distances: Distances) -> float:
    """Mean of all distances together."""
    return float(sum(d.sum() for d in distances) / sum(len(d) for d in distances))


def _empty(pred_empty: bool, true_empty: bool, on_empty: OnEmpty, diagonal: float) -> dict[str, float]:
    """The four metrics when at least one mask has no pixel."""
    both = pred_empty and true_empty
    if on_empty == "penalise":
        overlap, distance = (1.0, 0.0) if both else (0.0, diagonal)
    elif on_empty == "released":
        overlap, distance = 0.0, 0.0 if pred_empty else math.nan
    else:
        overlap, distance = math.nan if both else 0.0, math.nan
    return {"dice": overlap, "jaccard": overlap, "hd95": distance, "asd": distance}


def _as_masks(pred: ArrayLike, true: ArrayLike) -> tuple[Mask, Mask]:
    """Both masks as boolean arrays of one shape."""
    a, b = _as_mask("pred", pred), _as_mask("true", true)
    if a.shape != b.shape:
        raise ValueError(f"pred is {a.shape} and true is {b.shape}: resize one of them, the shapes must be equal")
    return a, b


def _as_mask(name: str, value: ArrayLike) -> Mask:
    """A boolean (H, W) array from a boolean or 0/1 array."""
    array: NDArray[Any] = np.asarray(value)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: give one mask of shape (H, W)")
    if array.dtype == np.bool_:
        return array
    mask: Mask = array == 1
    other = array[~mask & (array != 0)]
    if other.size:
        raise ValueError(
            f"{name} holds {other[0]}, but a mask is boolean or 0/1: "
            f"threshold it first, for example mask > 127 for a 0/255 picture or probability > 0.5"
        )
    return mask


def _check_name(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a name that is not in `allowed`."""
    if value not in allowed:
        raise ValueError(f"{argument} is {value!r}: choose one of {', '.join(allowed)}")
