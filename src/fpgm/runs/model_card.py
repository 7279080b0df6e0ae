"""``MODEL_CARD.md``: training data, results and limits of a model, written from a run's files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fpgm.data.catalog import find
from fpgm.data.pictures import RULES
from fpgm.data.splits.split import PARTS, Split
from fpgm.files import write_text
from fpgm.runs.card import ModelCard, read_card
from fpgm.runs.config import read_config
from fpgm.runs.cross_validation import read_cross_validation
from fpgm.runs.details import (
    NOT_MEASURABLE,
    SIZE_RULE,
    SIZES,
    count_by_size,
    count_empty_frames,
    expected_calibration_error,
)
from fpgm.runs.folder import RunFolder
from fpgm.runs.results import Result, read_result
from fpgm.runs.scores import METRICS, Scores, false_alarms, missed
from fpgm.runs.site import describe_site, summarise_statistics, warn_of_site
from fpgm.runs.summary import INTERVAL, told_images

MODEL_CARD = "MODEL_CARD.md"
NOT_CLINICAL = (
    "**Not for clinical use.** This is a research model. It is not a medical device, nobody has validated it on "
    "patients, and no diagnosis or treatment may rest on what it shows or fails to show."
)
_PHANTOM = (
    "It was trained on phantom images, drawn by a program: it shows that everything works together, and its figures "
    "say nothing about real colonoscopy."
)
_LIMITS = (
    "It says for each pixel whether a polyp is there, not of which kind it is.",
    "Images are squeezed to a square of fixed size: polyps of a few pixels can vanish.",
    "Results on test images are of the hospitals it was trained on. Another scanner, another light, dye, stool, blood, "
    "instruments or surgery can make it fail without a sign; results on unseen data sets show how far that went here.",
    "The public data sets hold chosen frames, nearly all with a polyp: how often it calls a healthy wall a polyp in a "
    "whole examination is not known.",
    "One training from one seed; others differ. Where patients or videos are not known, intervals are over images, and "
    "too narrow: frames of one video are alike.",
)
_UNCALIBRATED = "Its probabilities were not calibrated."
_CALIBRATED = (
    "Its probabilities were calibrated on validation images: on images of other hospitals they can be far off."
)
_DETAILS = (
    "data set",
    *(f"missed {size} polyps" for size in SIZES),
    "false alarms per frame without a polyp",
    "calibration error",
)
_BEFORE = "These figures are of the model before its statistics were replaced. "
_ONE_SITE = (
    "Its statistics are those of one site's frames: for another site, another scanner or other settings adapt the "
    "original again. That a site's statistics help is not certain; they can also harm."
)


def write_model_card(folder: Path, *, base: Path | None = None, store: Path | None = None) -> Path:
    """Write ``MODEL_CARD.md`` of a model folder from ``model.json`` and the run's files, and return its path.

    With an evaluation of the run's weights, its figures are in the card.

    Args:
        folder: model folder.
        base: run folder or model folder that the model was adapted from, if it was; what the files of its run say of
            data, training and results is said in the card too.
        store: store with the run's split; the one it was trained on if not given. If it is gone, so are the counts.
    """
    card, run = read_card(folder), _run_of(base or folder)
    sections = [_head(card, str(card.training.get("method", card.net)), "MODEL" if base or run is None else "RUN")]
    sections += [_site(card)] if card.statistics.site else []
    split = result = None
    if run:
        config, result = read_config(run), _result(run)
        split = _split(store or Path(config["data"]["store"]), str(config["data"]["split"]))
        sections += [_data(card, config, split), _training(read_card(RunFolder(run).model), config, run)]
        if result or not base:
            sections.append(_results(result, _BEFORE if base else ""))
    elif card.training:
        sections.append(f"## Training\n\n{_settings(card.training)}")
    site = [_ONE_SITE] if card.statistics.site else []
    sections.append(_limits(split, result, *site, _CALIBRATED if card.calibration else _UNCALIBRATED))
    path, text = folder / MODEL_CARD, "\n\n".join(sections) + "\n"
    if not (path.is_file() and path.read_bytes() == text.encode()):  # a finished run may be on a disk that is read-only
        write_text(path, text)
    return path


def _run_of(folder: Path) -> Path | None:
    """Return the run folder that a folder is, or whose model folder it is; None of a model without a run."""
    if RunFolder(folder).config.is_file():
        return folder
    above = folder.resolve().parent
    return above if RunFolder(above).config.is_file() and RunFolder(above).model == folder.resolve() else None


def _site(card: ModelCard) -> str:
    site = card.statistics.site
    assert site is not None
    text = (
        f"The statistics of batch norm were estimated from {site.frames} unlabelled frames of `{site.folder}` "
        f"(SHA-256 of their pixels `{site.sha256}`); the other weights are those of the model with SHA-256 "
        f"`{site.base_sha256}`."
    )
    if card.statistics.own:
        text += f" {card.statistics.own:.0%} of the statistics are each image's own."
    notes = "".join(f"\n\n**Note:** {warning}." for warning in warn_of_site(site))
    return f"## Statistics of a site\n\n{text}\n\n{_bullets(describe_site(site))}{notes}"


def _result(run: Path) -> Result | None:
    """Read the evaluation if there is one of these weights."""
    try:
        return read_result(run)
    except (ValueError, OSError):
        return None


def _split(store: Path, name: str) -> Split | None:
    try:
        return Split.load(store / "splits" / name)
    except (ValueError, OSError):
        return None


def _head(card: ModelCard, method: str, place: str) -> str:
    facts = {
        "Task": f"{', '.join(card.classes[1:])} against {card.classes[0]}, pixel by pixel, in colonoscopy images",
        "Network": f"{card.net} {_settings(card.arguments)}".strip(),
        "Input": f"RGB of {card.size} x {card.size} pixels, values {card.values}; other sizes are resized",
        "Made by": f"fpgm {card.package_version}, method `{method}`",
        "Weights": f"SHA-256 `{card.weights_sha256}`",
    }
    use = f"```sh\nfpgm predict {place} IMAGES --out DIR\n```"
    return f"# Model card: {method}\n\n{NOT_CLINICAL}\n\n{_bullets(facts)}\n\n{use}"


def _data(card: ModelCard, config: Mapping[str, Any], split: Split | None) -> str:
    spec, name = str(config["data"]["labeled"]), Path(config["data"]["split"]).name
    prepared = f"Each image is {RULES['image']}; here to {card.size} x {card.size}."
    if split is None:
        text = f"Split `{name}`, {spec} of the training images labelled. Its lists were not at hand for the counts."
        return f"## Data and labels\n\n{text}\n\n{prepared}"
    labels = split.labels(spec)
    others = f"those of the other {labels.unused} were not" if labels.unused else "that is all of them"
    fitted = ["the weights", *(["the temperature"] if card.calibration else [])]
    fitted += ["the smallest area of a polyp"] if card.least_area else []
    chosen = " and ".join([*([", ".join(fitted[:-1])] if fitted[1:] else []), fitted[-1]])
    chose = f"Validation images chose {chosen}; test images" if split.validation else "Test images"
    text = (
        f"Protocol `{split.protocol}`, split `{name}` of seed {split.seed}. "
        f"{labels.labeled} labelled, {labels.unlabeled} unlabelled images. The masks of {labels.labeled} training "
        f"images ({spec}) were used, {others}. {chose} and unseen data sets chose nothing."
    )
    counts = split.counts()
    rows = [[set_, *(str(counts[set_][part]) for part in PARTS), _licence(set_)] for set_ in counts]
    notes = [f"* {note}" for note in split.notes]
    table = _table(("data set", *PARTS, "licence"), rows)
    return "\n\n".join(["## Data and labels", text, table, *(["\n".join(notes)] if notes else []), prepared])


def _licence(dataset: str) -> str:
    known = find(dataset)
    return known.licence if known else "the owner's"


def _training(card: ModelCard, config: Mapping[str, Any], run: Path) -> str:
    train = config["train"]
    facts = {
        "Method": f"`{config['method']}` {_settings(config['arguments'])}".strip(),
        "Preset": f"{config['preset']}, {train['iterations']:,} iterations, seed {train['seed']}",
        "Optimiser": _settings(config["optimizer"]),
    }
    if "validation_dice" in card.training:
        best = f"Dice {card.training['validation_dice']:.4f} on the validation images"
        facts["Chosen by"] = f"{best}, at step {card.training.get('best_step', 0):.0f}"
    elif "chosen_by" in card.training:
        facts["Chosen by"] = f"{card.training['chosen_by']}, since there were no validation images"
    if (folds := read_cross_validation(run)) and folds.folds:
        facts["Estimate"] = f"{folds.describe()}; the weights are of a training on all of them"
    if fitted := card.calibration:
        facts["Calibration"] = (
            f"temperature {fitted.temperature:.3f}, fitted on {fitted.images} validation images; expected calibration "
            f"error there {fitted.error_before:.2%} before, {fitted.error_after:.2%} after"
        )
    if area := card.least_area:
        facts["Smallest polyp"] = (
            f"{card.least_pixels(card.size**2)} pixels of {card.size} x {card.size}, chosen on {area.images} "
            f"validation images; there, with smaller regions and without: Dice {area.dice_before:.4f} and "
            f"{area.dice_after:.4f}, polyps found {area.found_before} and {area.found_after}, regions that touch no "
            f"polyp {area.alarms_before} and {area.alarms_after}"
        )
    if statistics := summarise_statistics(card.statistics):
        scores = ", ".join(f"{name} {score:.4f}" for name, score in card.statistics.scores.items())
        facts["Batch norm"] = statistics + (f", chosen by validation Dice: {scores}" if scores else "")
    return f"## Training\n\n{_bullets(facts)}"


def _results(result: Result | None, before: str = "") -> str:
    if result is None:
        return "## Results\n\nThese weights were not evaluated yet: `fpgm evaluate RUN` adds the figures."
    text = (
        f"{before}Mean over images with the {INTERVAL}. Dice and Jaccard in percent, HD95 and ASD in "
        f"pixels of {result.size} x {result.size}; a polyp that was missed has Dice 0, and the diagonal as its "
        "distances."
    )
    header = ("data set", "images", "Dice", "Jaccard", "HD95", "ASD", "missed polyps", "false alarms")
    table = _table(header, [_row(*item) for item in result.scores.items()])
    detailed = [_detail_row(name, scores) for name, scores in result.scores.items() if scores.details]
    sizes = f"\n\nPolyp by polyp: {SIZE_RULE}.\n\n{_table(_DETAILS, detailed)}" if detailed else ""
    return f"## Results\n\n{text}\n\n{table}{sizes}"


def _row(name: str, scores: Scores) -> list[str]:
    cells = []
    for metric, scale in zip(METRICS, (100, 100, 1, 1), strict=True):
        summary = scores.summary(metric)
        mean, low, high = (scale * value for value in (summary.mean, summary.low, summary.high))
        cells.append(f"{mean:.1f} [{low:.1f}, {high:.1f}]")
    found = false_alarms(scores)
    alarms = NOT_MEASURABLE if found is None else str(found)
    images = told_images(len(scores.ids), scores.summary(METRICS[0]).groups)
    return [scores.label(name), images, *cells, str(missed(scores)), alarms]


def _detail_row(name: str, scores: Scores) -> list[str]:
    sizes, empty = count_by_size(scores.details), count_empty_frames(scores.details)
    missing = [f"{one.missed} of {one.polyps}" for one in sizes.values()]
    rate = NOT_MEASURABLE if empty.rate is None else f"{empty.rate:.2f}"
    return [scores.label(name), *missing, rate, f"{expected_calibration_error(scores.details):.2%}"]


def _limits(split: Split | None, result: Result | None, *more: str) -> str:
    names = {*(split.counts() if split else {}), *(result.scores if result else {})}
    notice = [_PHANTOM] if any(name.startswith("phantom-") for name in names) else []
    return "## Limits\n\n" + "\n".join(f"* {text}" for text in (*notice, *more, *_LIMITS))


def _settings(values: Mapping[str, Any]) -> str:
    """Write settings in a line; of a path the last part, the folders are the owner's affair."""
    shown = {
        name: Path(value).name if isinstance(value, str) and "/" in value else value for name, value in values.items()
    }
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in shown.items())


def _bullets(facts: Mapping[str, str]) -> str:
    return "\n".join(f"* {name}: {text}" for name, text in facts.items())


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))
