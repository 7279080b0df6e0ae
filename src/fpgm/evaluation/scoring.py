"""A predictor and labelled images → per-image rows, and what is known beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fpgm.data.image_facts import groups_of
from fpgm.data.parallel import Workers
from fpgm.evaluation.details import Item, Plane, examine
from fpgm.metrics import reported_metrics
from fpgm.regions import Mask, clean
from fpgm.runs.details import ImageDetails
from fpgm.runs.scores import Row

if TYPE_CHECKING:  # the processes that compute metrics import this module, and have no need of torch
    import torch
    from torch import Tensor, nn

    from fpgm.data.batches.pool import Pool

Result = TypeVar("Result")
BATCH = 16  # images in a pass


class NonFiniteOutput(ValueError):
    """A network gave a value that is not finite, of which no mask can be made."""

    def __init__(self) -> None:
        super().__init__(
            "the network gives values that are not finite, of which no mask can be made: its training has diverged. "
            "Train it again with a lower optimizer.lr or with --precision 32-true"
        )


class Scored(NamedTuple):
    """A row, and the predicted mask (S, ceil(S / 8)) with eight pixels in a byte."""

    row: Row
    packed: NDArray[np.uint8]


class Examined(NamedTuple):
    """What is scored of an image, and its details."""

    scored: Scored
    details: ImageDetails


def predict_masks(predictor: nn.Module, images: NDArray[np.uint8], device: torch.device) -> Mask:
    """Masks (n, S, S) of prepared images (n, S, S, 3); see `foreground_masks`."""
    return foreground_masks(predict_logits(predictor, images, device))


def predict_logits(predictor: nn.Module, images: NDArray[np.uint8], device: torch.device) -> Tensor:
    """Logits (n, K, S, S) of prepared images (n, S, S, 3); what is not finite is refused."""
    import torch

    with torch.no_grad():
        batch = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(255)
        logits: Tensor = predictor(batch)
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteOutput
    return logits


def log_odds(logits: Tensor) -> Tensor:
    """Log-odds of the foreground (n, S, S) of logits (n, K, S, S): all classes but the first against the first."""
    scores = logits.float()
    foreground = scores[:, 1] if scores.shape[1] == 2 else scores[:, 1:].logsumexp(1)
    return foreground - scores[:, 0]


def score(item: tuple[str, Mask, NDArray[np.uint8]]) -> Scored:
    """Compare a predicted mask (S, S) with the true one, by our rules and as the released code does."""
    id_, mask, truth = item
    predicted, true = int(np.count_nonzero(mask)), int(np.count_nonzero(truth))
    scores, released = reported_metrics(mask, truth)
    beside = {f"released_{name}": value for name, value in released.items()}
    row = Row(id_, **scores, **beside, predicted=predicted, true=true)
    return Scored(row, np.packbits(mask, axis=-1))


def compare(
    predictor: nn.Module, pool: Pool, *, device: torch.device, batch_size: int = BATCH, workers: Workers | None = None
) -> Iterator[Scored]:
    """Compare the predictor with the truth on every image of a pool, in its order.

    Args:
        predictor: (B, 3, H, W) in [0, 1] → logits; evaluated as it is, in evaluation mode.
        pool: images with masks.
        device: device of the predictor.
        batch_size: number of images in a pass.
        workers: processes that compute the metrics while the network goes on; this one if not given.
    """

    def items() -> Iterator[tuple[str, Mask, NDArray[np.uint8]]]:
        for chosen, logits in passes(predictor, pool, device, batch_size):
            yield from zip((pool.ids[i] for i in chosen), foreground_masks(logits), pool.masks(chosen), strict=True)

    yield from _evaluating(predictor, lambda: (workers or Workers()).map(score, items(), len(pool)))


def compare_in_detail(
    predictor: nn.Module,
    pool: Pool,
    *,
    device: torch.device,
    temperature: float = 1.0,
    least_area: int = 0,
    batch_size: int = BATCH,
    workers: Workers | None = None,
) -> Iterator[Examined]:
    """Do what `compare` does, and examine each image's polyps, false alarms and calibration.

    Args:
        predictor: see `compare`, as for all others.
        pool: images with masks.
        device: device of the predictor.
        temperature: what the log-odds of the foreground are divided by; it changes no mask.
        least_area: smallest area of a predicted polyp in pixels; smaller regions are left out.
        batch_size: number of images in a pass.
        workers: processes that compute.
    """

    def items() -> Iterator[Item]:
        groups = groups_of(pool)
        for chosen, logits in passes(predictor, pool, device, batch_size):
            planes: Plane = log_odds(logits).div_(temperature).sigmoid_().cpu().numpy()
            ids, known = [pool.ids[i] for i in chosen], [groups[i] for i in chosen]
            masks = [clean(mask, min_area=least_area) for mask in foreground_masks(logits)]
            yield from map(Item._make, zip(ids, known, masks, pool.masks(chosen), planes, strict=True))

    yield from _evaluating(predictor, lambda: (workers or Workers()).map(_score_in_detail, items(), len(pool)))


def evaluate(predictor: nn.Module, pool: Pool, *, device: torch.device) -> list[Row]:
    """Return the rows of `compare`, computed in this process."""
    return [row for row, _ in compare(predictor, pool, device=device)]


def _score_in_detail(item: Item) -> Examined:
    return Examined(score((item.id, item.mask, item.truth)), examine(item))


def foreground_masks(logits: Tensor) -> Mask:
    """Masks (n, S, S) of logits (n, K, S, S): the most likely class is not the background."""
    masks: Mask = (logits[:, 1:].amax(1) > logits[:, 0]).cpu().numpy()  # argmax takes 90 times as long on a CPU
    return masks


def passes(
    predictor: nn.Module, pool: Pool, device: torch.device, batch_size: int = BATCH
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Yield the indices of the images of each pass, and their logits; the predictor is used in the mode it is in."""
    for start in range(0, len(pool), batch_size):
        chosen = np.arange(start, min(start + batch_size, len(pool)))
        yield chosen, predict_logits(predictor, pool.images(chosen), device)


def _evaluating(predictor: nn.Module, results: Callable[[], Iterator[Result]]) -> Iterator[Result]:
    """Yield results with the predictor in evaluation mode, and leave it as it was."""
    was_training = predictor.training
    predictor.eval()
    try:
        yield from results()
    finally:
        predictor.train(was_training)
