"""Several runs as one model: their probabilities are averaged and calibrated together."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fpgm.data.batches.pool import Pool
from fpgm.data.splits.split import Split, split_folder
from fpgm.data.store import open_stores
from fpgm.evaluation.run import read_run
from fpgm.evaluation.specks import choose_least_area
from fpgm.evaluation.temperature import calibrate
from fpgm.files import sole_writer
from fpgm.model import choose_device, load_model, save_model
from fpgm.nets.ensemble import Ensemble
from fpgm.runs.card import ModelCard
from fpgm.runs.config import read_config, write_config
from fpgm.runs.folder import RunFolder
from fpgm.runs.metrics import MetricsFile


def combine(runs: Sequence[Path], out: Path, *, data: Path | None = None, device: str = "auto") -> ModelCard:
    """Write a run folder whose model averages those of several runs, and return its card.

    Temperature and smallest area are chosen anew for the average, on the validation images of the runs' split. The
    runs must have the same split: a test image of one that another was trained with would be scored too well.

    Args:
        runs: folders of finished runs, two or more.
        out: run folder to write; it must be empty or not there.
        data: the store with the runs' split; the one the first was trained on if not given.
        device: device of the networks.
    """
    if len(runs) < 2 or len({run.resolve() for run in runs}) < len(runs):
        raise ValueError("fpgm combine takes two or more runs, each once")
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} holds files already: give another --out")
    cards = [read_run(run)[1] for run in runs]
    _check(runs, cards)
    split, store = _split(runs, data)
    nets = [load_model(run)[0] for run in runs]
    members = [{"net": card.net, "arguments": _offline(card), "own": card.statistics.own} for card in cards]
    ensemble, place = Ensemble(nets).eval(), choose_device(device)
    pool = Pool(open_stores(store), split.validation) if split.validation else None
    ensemble.to(place)
    card = ModelCard(
        net="ensemble",
        arguments={"members": members},
        size=cards[0].size,
        classes=cards[0].classes,
        training={**_common(cards), "combined": [run.resolve().name for run in runs]},
        calibration=calibrate(ensemble, pool, device=place) if pool else None,
        least_area=choose_least_area(ensemble, pool, device=place) if pool and cards[0].least_area else None,
    )
    with sole_writer(out):
        record = read_config(runs[0])
        record["data"] = {**record["data"], "store": str(store)}
        record |= {"combined": card.training["combined"], "departs": [*record["departs"], "combined"]}
        write_config(RunFolder(out).config, record)
        MetricsFile(RunFolder(out).metrics, 0)  # of a training it has none
        if RunFolder(runs[0]).training_images.is_file():
            shutil.copyfile(RunFolder(runs[0]).training_images, RunFolder(out).training_images)
        return save_model(RunFolder(out).model, ensemble.cpu(), card)


def _check(runs: Sequence[Path], cards: Sequence[ModelCard]) -> None:
    """Refuse models that cannot be averaged."""
    for run, card in zip(runs, cards, strict=True):
        if card.net == "ensemble":
            raise ValueError(f"{run} is a combination itself: give the runs that it was made of")
        if (card.size, card.classes) != (cards[0].size, cards[0].classes):
            raise ValueError(
                f"{run} is a model of {card.size} x {card.size} pixels and classes {', '.join(card.classes)}, "
                f"{runs[0]} of {cards[0].size} x {cards[0].size} and {', '.join(cards[0].classes)}: only equal ones "
                "are averaged"
            )


def _split(runs: Sequence[Path], data: Path | None) -> tuple[Split, Path]:
    """Return the split of all runs, which must have the same images in each part, and its store."""
    found: list[tuple[Split, Path]] = []
    for run in runs:
        settings, _ = read_run(run)
        store = data or Path(settings["store"])
        found.append((Split.load(split_folder(store, str(settings["split"]))), store))
    first = {part: set(ids) for part, ids in found[0][0].parts().items()}
    for run, (split, _) in zip(runs, found, strict=True):
        if {part: set(ids) for part, ids in split.parts().items()} != first:
            raise ValueError(
                f"{run} has another split than {runs[0]}: a test image of one is a training image of the other, and "
                "scores of both together would say too much; combine runs of one split"
            )
    return found[0]


def _common(cards: Sequence[ModelCard]) -> dict[str, Any]:
    """Return what the trainings have in common, and what only the first may have: the hash of the train list."""
    first = cards[0].training
    shared = {key: value for key, value in first.items() if all(card.training.get(key) == value for card in cards)}
    return {**shared, "train_sha256": first.get("train_sha256")}


def _offline(card: ModelCard) -> dict[str, Any]:
    """Return the arguments of a member, whose weights are in the file: it has no others to download."""
    return {**card.arguments, "pretrained": False} if "pretrained" in card.arguments else card.arguments
