"""The look of images in numbers: features of an encoder that learnt on ImageNet. N images, D features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from fpgm.data.batches.pool import Pool
from fpgm.nets.lite_unet import LiteUNet

Features = NDArray[np.float32]
_SIDE = 128  # of the images that the encoder sees
_BATCH = 32
_LEVELS = 2  # the coarsest maps of the encoder, whose means are the features


def describe_looks(pool: Pool, advance: Callable[[int, int], None] = lambda done, total: None) -> Features:
    """Return features (N, D) of the images of a pool: the means of the two coarsest maps, each map scaled alike.

    Args:
        pool: the images.
        advance: called with how many are done, and how many there are.
    """
    net = LiteUNet()
    net.load_pretrained()
    net.eval()
    found = []
    for start in range(0, len(pool), _BATCH):
        chosen = np.arange(start, min(start + _BATCH, len(pool)))
        with torch.inference_mode():
            batch = torch.from_numpy(pool.images(chosen)).permute(0, 3, 1, 2).float().div_(255)
            maps = net.encoder(F.interpolate(batch, (_SIDE, _SIDE), mode="bilinear", antialias=True))[-_LEVELS:]
            found.append(torch.cat([one.mean((2, 3)) for one in maps], 1).numpy())
        advance(int(chosen[-1]) + 1, len(pool))
    features = np.concatenate(found)
    spread = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return scaled / np.sqrt(features.shape[1], dtype=np.float32)
