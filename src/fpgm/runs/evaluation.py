"""``evaluation/evaluation.json``: of which weights and images the scores are; and the predicted masks.

It is written last: where it is, all files it lists are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.files import (
    MOST_BYTES,
    atomic_path,
    check_inside,
    check_name,
    file_sha256,
    first_fault,
    open_regular,
    parse_json,
    read_file,
    write_text,
)
from fpgm.runs.card import CARD
from fpgm.runs.folder import RunFolder

EVALUATION = "evaluation.json"
_KINDS = ("csv", "npz", "details.json")  # files of a data set
_NPY_HEADER = 1024  # most bytes before the numbers of an array


class EvaluatedSet(BaseModel):
    """A data set that was scored.

    Attributes:
        images: number of images.
        unseen: whether the whole set was kept from training.
        sha256: hash of the file of scores.
        masks_sha256: hash of the file of masks.
        source_sha256: hash of the ids and of the store's manifest.
        details_sha256: hash of the file of details; format 2 has none.
        after_training: whether the images are none of the run's split, but came later.
        store: store of images that came later, as a path from the run folder or a whole one.
        near_duplicates: ids of such images with those of the training images that they are nearly the same as; None
            where that was not compared.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int
    unseen: bool
    sha256: str
    masks_sha256: str = ""
    source_sha256: str = ""
    details_sha256: str = ""
    after_training: bool = False
    store: str = ""
    near_duplicates: tuple[tuple[str, str], ...] | None = None


class Evaluation(BaseModel):
    """``evaluation.json``: weights, size, split and the data sets that were scored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-evaluation-3", "fpgm-evaluation-2"] = "fpgm-evaluation-3"
    version: str = __version__
    weights_sha256: str
    size: int
    protocol: str
    split: str
    split_seed: int
    left_out: str = ""  # the hospital that protocol `hospitals` kept unseen
    draw: int = 0  # number of the draw of the labelled images
    datasets: dict[str, EvaluatedSet] = {}

    def fits(self, other: Evaluation) -> bool:
        """Whether both are of the same weights and split; the format decides, not the version."""
        same = {"datasets": {}, "version": ""}
        return self.model_copy(update=same) == other.model_copy(update=same)


FORMAT: str = Evaluation.model_fields["format"].default
FORMATS: tuple[str, ...] = get_args(Evaluation.model_fields["format"].annotation)  # that can be read


def is_evaluated(run: Path) -> bool:
    """Whether a run has an evaluation in a format that can be read."""
    try:
        return parse_json(read_file(evaluation_file(run), run))["format"] in FORMATS
    except (OSError, ValueError, LookupError, TypeError):
        return False


def recorded_names(run: Path) -> set[str]:
    """Return the data sets that ``evaluation.json`` lists, whatever else it says."""
    try:
        names = parse_json(read_file(evaluation_file(run), run))["datasets"]
        return {check_name(name, "the name of a data set") for name in dict(names)}
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def evaluation_file(run: Path) -> Path:
    """Return the path of ``evaluation.json``."""
    return RunFolder(run).evaluation / EVALUATION


def scores_file(run: Path, dataset: str) -> Path:
    """Return the path of the scores of a data set."""
    return RunFolder(run).evaluation / f"{dataset}.csv"


def masks_file(run: Path, dataset: str) -> Path:
    """Return the path of the predicted masks of a data set."""
    return RunFolder(run).evaluation / f"{dataset}.npz"


def details_file(run: Path, dataset: str) -> Path:
    """Return the path of the details of a data set."""
    return RunFolder(run).evaluation / f"{dataset}.details.json"


def describe_files(run: Path, dataset: str, **facts: Any) -> EvaluatedSet | None:
    """Describe the files of a data set as they are now; None where one is missing.

    Args:
        run: run folder.
        dataset: name of the data set.
        **facts: the fields of `EvaluatedSet` that are not hashes of files.
    """
    files = scores_file(run, dataset), masks_file(run, dataset), details_file(run, dataset)
    if not all(file.is_file() for file in files):
        return None
    scores, masks, details = map(file_sha256, files)
    return EvaluatedSet(sha256=scores, masks_sha256=masks, details_sha256=details, **facts)


def replace_evaluation(run: Path, record: Evaluation, stale: Iterable[str]) -> None:
    """Write the record and remove the files of the data sets that are stale; without data sets there is no record."""
    path = evaluation_file(run)
    if record.datasets:
        usual = {name for name in ("left_out", "draw") if not getattr(record, name)}
        content = record.model_dump(mode="json", exclude=usual)
        write_text(path, json.dumps(content, indent=1) + "\n")
    else:
        path.unlink(missing_ok=True)
    for name in stale:
        for kind in _KINDS:
            (path.parent / f"{name}.{kind}").unlink(missing_ok=True)


def read_evaluation(run: Path) -> Evaluation:
    """Read ``evaluation.json`` and check that it is of the weights of the run's model."""
    model, path = RunFolder(run).model / CARD, evaluation_file(run)
    again = f"run `fpgm evaluate {run}` again"
    if not model.is_file():
        raise FileNotFoundError(
            f"{run} is not finished: it has no model/{CARD}; go on with `fpgm train … --out {run} --resume`"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"{run} is not evaluated: it has no evaluation/{EVALUATION}; do so with `fpgm evaluate {run}`"
        )
    try:
        record = Evaluation.model_validate(_read_json(path, run, again))
    except ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}; {again}") from None
    for name in record.datasets:
        check_name(name, f"the name of a data set in {path}")
    check_name(record.protocol, f"the protocol in {path}")
    check_name(record.split, f"the split in {path}")
    if record.weights_sha256 != _read_json(model, run, again).get("weights_sha256"):
        raise ValueError(f"the evaluation of {run} is of other weights than its model: {again}")
    return record


def write_masks(path: Path, packed: NDArray[np.uint8]) -> None:
    """Write predicted masks (N, S, ceil(S / 8)) with eight pixels in a byte."""
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, masks=packed)


def read_masks(run: Path, dataset: str, size: int, images: int | None = None) -> NDArray[np.bool_]:
    """Read the masks (N, S, S) that a run predicted, in the order of its scores; what unpacks to over N is refused."""
    path = masks_file(run, dataset)
    check_inside(path, run)
    most = MOST_BYTES if images is None else images * size * -(-size // 8) + _NPY_HEADER
    try:
        with open_regular(path) as archive:
            if (unpacked := sum(one.file_size for one in ZipFile(archive).infolist())) > most:
                raise ValueError(f"it unpacks to {unpacked:,} bytes, and its masks have at most {most:,}")
            archive.seek(0)
            with np.load(archive, allow_pickle=False) as file:
                packed = file["masks"]
        if packed.dtype != np.uint8 or packed.shape[1:] != (size, -(-size // 8)):
            raise ValueError(f"masks are {packed.dtype} {packed.shape}")
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can make its reader raise anything
        raise ValueError(f"{path} is damaged ({error}); make it again with `fpgm evaluate {run}`") from None
    return np.unpackbits(packed, axis=-1, count=size).view(np.bool_)


def _read_json(path: Path, run: Path, again: str) -> dict[str, Any]:
    try:
        record = parse_json(read_file(path, run))
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); {again}") from None
    return record if isinstance(record, dict) else {}
