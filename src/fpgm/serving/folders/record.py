"""``predictions.jsonl``, a line per predicted file, and ``findings.csv``, which is made of it.

A line is added before the first and after the last picture of a file is written, and the later one counts; so a
prediction that was interrupted goes on where it was.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path, PurePath
from threading import Lock
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fpgm.files import csv_cell, read_file, write_text
from fpgm.serving.findings import Finding

RECORD, TABLE = "predictions.jsonl", "findings.csv"
COLUMNS = (
    "image", "frame", "time", "name", "uncertainty", "polyp", "area", "share", "confidence", "disagreement",
    "left", "top", "width", "height",
)  # fmt: skip


class Frame(BaseModel):
    """One picture, or one frame of a moving one.

    Attributes:
        pixels: its pixels.
        findings: the polyps found.
        uncertainty: 1 minus the Dice that the model expects of its mask; None in records of earlier releases.
        time: seconds since the first frame of a film; None of what is not a film.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pixels: int = Field(gt=0)
    findings: tuple[Finding, ...]
    uncertainty: float | None = Field(None, ge=0, le=1)
    time: float | None = Field(None, ge=0, allow_inf_nan=False)


class Entry(BaseModel):
    """One file.

    Attributes:
        image: its path, relative to the folder of results.
        sha256: of its content; nothing if the file is on its way or was left out, its name being taken all the same.
        name: name of its results.
        moving: whether they are a folder of frames.
        settings: all that decides the results but the picture.
        frames: findings of each frame; one frame if it does not move.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str
    sha256: str
    name: str
    moving: bool
    settings: dict[str, Any]
    frames: tuple[Frame, ...]

    @model_validator(mode="after")
    def _check(self) -> Entry:
        """Refuse what we never write; a name that leads elsewhere would let a record say which files to overwrite."""
        place = PurePath(self.name)
        if place.anchor or ".." in place.parts or "\0" in self.name:
            raise ValueError(f"{self.name!r} is not a name within the folder")
        if self.sha256 and not self.moving and len(self.frames) != 1:
            raise ValueError("a picture that does not move has one frame")
        return self

    def names(self) -> list[str]:
        """Return what each frame's results are called."""
        if not self.moving:
            return [self.name]
        return [frame_name(self.name, number) for number in range(len(self.frames))]


def frame_name(name: str, number: int) -> str:
    """Return the name of frame 0, 1 … of a moving picture; files count from 1."""
    return f"{name}/{number + 1:06d}"


class PredictionRecord:
    """The entries of a folder of results, by image; lines that were cut short or are not ours are dropped.

    Attributes:
        entries: the last one of each image.
    """

    def __init__(self, out: Path) -> None:
        self._path, self._lock = out / RECORD, Lock()
        self.entries: dict[str, Entry] = {}
        for line in read_file(self._path).splitlines() if self._path.is_file() else []:
            try:
                entry = Entry.model_validate_json(line)
            except ValidationError:
                continue
            self.entries[entry.image] = entry
        self._rewrite()

    def add(self, entry: Entry) -> None:
        """Remember a file whose results are written, or are about to be; threads may call it beside each other."""
        line = entry.model_dump_json() + "\n"
        with self._lock, self._path.open("a", encoding="utf-8", newline="\n") as file:
            self.entries[entry.image] = entry
            file.write(line)

    def write_table(self, path: Path, settings: dict[str, Any]) -> None:
        """Write a line per polyp of all files predicted with these settings; one with polyp 0 where none was found.

        The files that are most worth a second look come first: those with the most uncertain frame.
        """
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for entry in sorted(self.entries.values(), key=_doubt):
            if entry.sha256 and entry.settings == settings:
                writer.writerows(map(csv_cell, line) for line in _lines(entry))
        write_text(path, text.getvalue())

    def _rewrite(self) -> None:
        write_text(self._path, "".join(f"{entry.model_dump_json()}\n" for entry in self.entries.values()))


def _doubt(entry: Entry) -> tuple[float, str]:
    """Sort by the most uncertain frame, then by name."""
    return -max((frame.uncertainty or 0 for frame in entry.frames), default=0), entry.image


def _lines(entry: Entry) -> Iterator[tuple[Any, ...]]:
    for number, (name, frame) in enumerate(zip(entry.names(), entry.frames, strict=True), start=1):
        doubt = "" if frame.uncertainty is None else f"{frame.uncertainty:.4f}"
        time = "" if frame.time is None else f"{frame.time:.3f}"
        where = entry.image, number if entry.moving else "", time, name, doubt
        if not frame.findings:
            yield (*where, 0, 0, 0, *[""] * 6)
        for polyp, found in enumerate(frame.findings, start=1):
            share = f"{found.area / frame.pixels:.6f}"
            spread = "" if found.disagreement is None else f"{found.disagreement:.4f}"
            yield (*where, polyp, found.area, share, f"{found.confidence:.4f}", spread, *found.box)
