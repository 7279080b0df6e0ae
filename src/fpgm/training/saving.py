"""The model that a finished run ships: its weights, statistics, temperature and smallest area, chosen by validation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fpgm.config import RunConfig
from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split
from fpgm.evaluation.specks import choose_least_area
from fpgm.evaluation.temperature import calibrate
from fpgm.model import save_model
from fpgm.nets.statistics import ImageBatches, choose_statistics
from fpgm.runs.card import ModelCard, Statistics
from fpgm.runs.folder import RunFolder
from fpgm.spectrum import FrequencyPrior
from fpgm.training.trainer import Trainer

CLEAN_IMAGES = 128  # images for new batch-norm statistics: four are nearly as good as 256


class Pools(NamedTuple):
    """The images of a run."""

    labeled: Pool
    unlabeled: Pool | None
    validation: Pool | None


def save_trained(trainer: Trainer, config: RunConfig, pools: Pools, split: Split) -> None:
    """Write the best predictor, without validation images the last one, and the prior if one was learnt."""
    if pools.validation is not None:
        trainer.restore(trainer.best())
    net, statistics = trainer.predictor(), Statistics()
    if config.train.choose_statistics and pools.validation is not None:
        choice = choose_statistics(
            net, _clean_images(pools, trainer.fabric.device), partial(trainer.score, pools.validation)
        )
        net, statistics = choice.net, Statistics(source=choice.source, own=choice.own, scores=choice.scores)
    validation, device = pools.validation, trainer.fabric.device
    labels = split.labels(config.data.labeled)
    training = {
        "method": config.method,
        "preset": config.preset,
        "iterations": config.train.iterations,
        "seed": config.train.seed,
        "split": Path(config.data.split).name,
        "labeled": config.data.labeled,
        "labeled_images": labels.labeled,
        "unlabeled_images": labels.unlabeled,
        "masks_not_used": labels.unused,
        "train_sha256": split.train_sha256(),
        **_selection(trainer, statistics, pools.validation),
        **({"raised": list(config.train.raised)} if config.train.raised else {}),
        **({"from": Path(config.net.start).name} if config.net.start else {}),
    }
    card = ModelCard(
        net=config.net.name,
        arguments=config.net.arguments,
        size=pools.labeled.size,
        training=training,
        statistics=statistics,
        calibration=calibrate(net, validation, device=device) if validation else None,
        least_area=choose_least_area(net, validation, device=device)
        if validation and config.train.choose_area
        else None,
    )
    save_model(RunFolder(trainer.folder).model, net, card)
    for module in trainer.method.modules():
        if isinstance(module, FrequencyPrior) and module.learnt:
            module.save(RunFolder(trainer.folder).prior)


def _selection(trainer: Trainer, statistics: Statistics, validation: Pool | None) -> dict[str, Any]:
    """Say in the card how the weights were chosen; without validation images there is no Dice to name."""
    if validation is None:
        return {"chosen_by": f"nothing: the {trainer.shipped()} of the last step"}
    dice = max(statistics.scores.values(), default=trainer.best_score["dice"])
    return {"chosen_by": "validation Dice", "validation_dice": dice, "best_step": trainer.best_score["step"]}


def _clean_images(pools: Pools, device: torch.device, count: int = CLEAN_IMAGES) -> ImageBatches:
    """Training images as they are, labelled and unlabelled, evenly spaced over both pools."""
    both = [pool for pool in (pools.labeled, pools.unlabeled) if pool is not None]
    total = sum(map(len, both))
    chosen = []
    for pool in both:
        wanted = max(1, min(len(pool), round(count * len(pool) / total)))
        chosen.append(pool.images(np.linspace(0, len(pool) - 1, wanted).round().astype(int)))
    return ImageBatches(torch.from_numpy(np.concatenate(chosen)), device=device)
