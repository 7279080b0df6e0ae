"""A predictor and a pool of labelled images → per-image rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fpgm.data.streams import Pool
from fpgm.files import write_text
from fpgm.metrics import OnEmpty, pair_metrics


class Row(NamedTuple):
    """The comparison of one image; `predicted` and `true` are numbers of foreground pixels."""

    id: str
    dice: float
    jaccard: float
    hd95: float
    asd: float
    predicted: int
    true: int


@torch.no_grad()
def predict_masks(predictor: nn.Module, images: NDArray[np.uint8], device: torch.device) -> NDArray[np.bool_]:
    """Masks (n, S, S) of prepared images (n, S, S, 3): the most likely class is not the background."""
    batch = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(255)
    masks: NDArray[np.bool_] = (predictor(batch).argmax(1) > 0).cpu().numpy()
    return masks


def evaluate(
    predictor: nn.Module,
    pool: Pool,
    *,
    on_empty: OnEmpty,
    device: torch.device,
    batch_size: int = 16,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Row]:
    """Compare the predictor with the truth on every image of a pool.

    Args:
        predictor: (B, 3, H, W) in [0, 1] → logits; evaluated as it is, in evaluation mode.
        pool: images with masks.
        on_empty: what an empty mask scores, see `fpgm.metrics`.
        device: where the predictor is.
        batch_size: images in a pass.
        advance: called with the number of images done since the last call.
    """
    was_training = predictor.training
    predictor.eval()
    rows: list[Row] = []
    for start in range(0, len(pool), batch_size):
        chosen = np.arange(start, min(start + batch_size, len(pool)))
        predicted = predict_masks(predictor, pool.images(chosen), device)
        for index, mask, truth in zip(chosen, predicted, pool.masks(chosen), strict=True):
            scores = pair_metrics(mask, truth, on_empty=on_empty)
            rows.append(Row(pool.ids[index], **scores, predicted=int(mask.sum()), true=int(truth.sum())))
        advance(len(chosen))
    predictor.train(was_training)
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV, a header and a line per image."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    write_text(path, text.getvalue())
