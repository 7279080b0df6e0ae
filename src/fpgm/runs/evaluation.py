"""``evaluation/evaluation.json``: of which weights and images the scores are; and the predicted masks.

It is written last: where it is, all files it lists are.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.files import atomic_path, check_inside, check_name, file_sha256, parse_json, read_file, write_text
from fpgm.runs.card import CARD
from fpgm.runs.folder import RunFolder

EVALUATION = "evaluation.json"
_KINDS = ("csv", "npz")  # files of a data set


class EvaluatedSet(BaseModel):
    """A data set that was scored.

    Attributes:
        images: number of images.
        unseen: whether the whole set was kept from training.
        sha256: hash of the file of scores.
        masks_sha256: hash of the file of masks.
        source_sha256: hash of the ids and of the store's manifest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int
    unseen: bool
    sha256: str
    masks_sha256: str = ""
    source_sha256: str = ""


class Evaluation(BaseModel):
    """``evaluation.json``: weights, size, split and the data sets that were scored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fpgm-evaluation-2"] = "fpgm-evaluation-2"
    version: str = __version__
    weights_sha256: str
    size: int
    protocol: str
    split: str
    split_seed: int
    left_out: str = ""  # the hospital that protocol `hospitals` kept unseen
    datasets: dict[str, EvaluatedSet] = {}

    def fits(self, other: Evaluation) -> bool:
        """Whether both are of the same weights and split; the format decides, not the version."""
        same = {"datasets": {}, "version": ""}
        return self.model_copy(update=same) == other.model_copy(update=same)


FORMAT: str = Evaluation.model_fields["format"].default


def is_evaluated(run: Path) -> bool:
    """Whether a run has an evaluation in the format that is written here."""
    try:
        return bool(parse_json(read_file(evaluation_file(run), run))["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def evaluation_file(run: Path) -> Path:
    """Return the path of ``evaluation.json``."""
    return RunFolder(run).evaluation / EVALUATION


def scores_file(run: Path, dataset: str) -> Path:
    """Return the path of the scores of a data set."""
    return RunFolder(run).evaluation / f"{dataset}.csv"


def masks_file(run: Path, dataset: str) -> Path:
    """Return the path of the predicted masks of a data set."""
    return RunFolder(run).evaluation / f"{dataset}.npz"


def describe_files(run: Path, dataset: str, *, images: int, unseen: bool, source_sha256: str) -> EvaluatedSet | None:
    """Describe the files of a data set as they are now; None where one is missing."""
    files = scores_file(run, dataset), masks_file(run, dataset)
    if not all(file.is_file() for file in files):
        return None
    scores, masks = map(file_sha256, files)
    return EvaluatedSet(images=images, unseen=unseen, sha256=scores, masks_sha256=masks, source_sha256=source_sha256)


def replace_evaluation(run: Path, record: Evaluation, stale: Iterable[str]) -> None:
    """Write the record and remove the files of the data sets that are stale; without data sets there is no record."""
    path = evaluation_file(run)
    if record.datasets:
        content = record.model_dump(exclude=set() if record.left_out else {"left_out"})
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
        first = error.errors()[0]
        raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; {again}") from None
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


def read_masks(run: Path, dataset: str, size: int) -> NDArray[np.bool_]:
    """Read the masks (N, S, S) that a run predicted, in the order of its scores."""
    path = masks_file(run, dataset)
    check_inside(path, run)
    try:
        with np.load(path, allow_pickle=False) as file:
            packed = file["masks"]
        if packed.dtype != np.uint8 or packed.shape[1:] != (size, -(-size // 8)):
            raise ValueError(f"masks are {packed.dtype} {packed.shape}")
    except (EOFError, BadZipFile, zlib.error, ValueError, KeyError, MemoryError, NotImplementedError) as error:
        raise ValueError(f"{path} is damaged ({error}); make it again with `fpgm evaluate {run}`") from None
    return np.unpackbits(packed, axis=-1, count=size).astype(bool)


def _read_json(path: Path, run: Path, again: str) -> dict[str, Any]:
    try:
        record = parse_json(read_file(path, run))
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); {again}") from None
    return record if isinstance(record, dict) else {}
