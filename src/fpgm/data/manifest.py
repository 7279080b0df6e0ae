"""The readable half of a store: what was prepared from what, how, and what was left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
import PIL
from pydantic import BaseModel, ConfigDict, ValidationError

from fpgm._version import __version__
from fpgm.files import first_fault, read_file

MANIFEST = "manifest.json"
MAKE = "`fpgm data prepare --root RAW --out STORE` or `fpgm data synth --out STORE`"


@dataclass(frozen=True)
class LeftOut:
    """A file that is left out, and why; ``file`` is relative to the folder the user gave, or "" for the whole set."""

    kind: str
    file: str
    reason: str


class ImageRow(NamedTuple):
    """One image: names and SHA-256 of its files, its size in pixels and share of foreground before resizing.

    `group` names what its images must not be divided from, such as a patient or a video; `part` is train, validation,
    test or unseen where the raw folders are divided already. Stores of earlier releases have neither.
    """

    id: str
    image: str | None
    mask: str | None
    image_sha256: str | None
    mask_sha256: str | None
    width: int
    height: int
    foreground: float | None
    group: str | None = None
    part: str | None = None


class Manifest(BaseModel):
    """Facts about a prepared data set for people, and what a second run needs from the first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["fpgm store"] = "fpgm store"
    version: Literal[1] = 1
    name: str
    source: str
    size: int
    pairs: int
    unlabeled: int
    skipped: dict[str, int]
    rules: dict[str, str]
    inputs: str  # SHA-256 over the names and contents of all input files
    data_sha256: str = ""  # of data.h5; stores of earlier releases have none
    versions: dict[str, str]
    problems: tuple[LeftOut, ...]
    columns: tuple[str, ...] = ImageRow._fields
    images: tuple[ImageRow, ...]

    @classmethod
    def describe(cls, rows: Iterable[ImageRow], problems: Iterable[LeftOut] = (), **header: Any) -> Manifest:
        """Count images and files left out; ``header`` is name, source, size, rules and inputs."""
        images, left_out = tuple(rows), tuple(problems)
        labeled = sum(row.foreground is not None for row in images)
        return cls(
            pairs=labeled,
            unlabeled=len(images) - labeled,
            skipped=dict(sorted(Counter(problem.kind for problem in left_out if problem.file).items())),
            versions=versions(),
            problems=left_out,
            images=images,
            **header,
        )

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a data set's folder."""
        path = folder / MANIFEST
        try:
            return cls.model_validate_json(read_file(path))
        except ValidationError as error:
            told = f"{path} is not a manifest of this release ({first_fault(error)})"
            raise ValueError(f"{told}; make it again with {MAKE}") from None

    def text(self) -> str:
        """Return the content of the file, one line per image."""
        header = self.model_dump(mode="json", exclude={"images"})
        text = json.dumps(header, indent=1, ensure_ascii=False).removesuffix("\n}")
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in self.images)
        return f'{text},\n "images": [\n  {rows}\n ]\n}}\n'


def versions() -> dict[str, str]:
    """Return the versions of the libraries that the bytes of a store depend on."""
    return {
        "fpgm": __version__,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        "h5py": h5py.__version__,
        "hdf5": h5py.version.hdf5_version,
    }
