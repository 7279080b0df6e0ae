"""Predict many files into a folder of results; finished files are kept, damaged ones are left out and named."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from PIL import Image

from fpgm._version import __version__
from fpgm.calibration import expected_dice
from fpgm.data.names import printable
from fpgm.data.pictures import Refused
from fpgm.files import check_inside, file_sha256, sole_writer
from fpgm.serving.findings import describe
from fpgm.serving.folders.films import FilmDone, FoundFrame, predict_film
from fpgm.serving.folders.inputs import Source, claims, distinct, is_film, open_frames
from fpgm.serving.folders.overlap import prefetched
from fpgm.serving.folders.record import RECORD, TABLE, Entry, Frame, PredictionRecord, frame_name
from fpgm.serving.pictures import SUFFIXES, Kind, place, save_pictures
from fpgm.serving.predictor import Batch, Computed, Predicted, Predictor
from fpgm.serving.smoothing import check_half_life

Advance = Callable[[str, int, int], None]  # files, or frames of a film; how many are done, and how many there are
_MOST_PIXELS = 2**24  # of the pictures that wait together; those of four passes are in memory


class Skipped(NamedTuple):
    """A file that was left out, and why."""

    path: Path
    reason: str


@dataclass
class Summary:
    """What became of the files: predicted now, predicted before, left out; films; what was found; and the settings."""

    done: int = 0
    kept: int = 0
    pictures: int = 0
    polyps: int = 0
    problems: list[Skipped] = field(default_factory=list)
    films: list[FilmDone] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Job:
    """A file on its way: how it is recorded, and what was found in the frames written so far."""

    path: Path
    image: str
    name: str
    sha256: str = ""
    moving: bool = False
    film: bool = False
    problem: str = ""
    frames: list[Frame] = field(default_factory=list)


_Waiting = tuple[_Job, Image.Image | None]  # a picture of a file; None at the end of the file


def predict_files(
    predictor: Predictor,
    sources: Sequence[Source],
    out: Path,
    kinds: Iterable[Kind] | None = None,
    advance: Advance = lambda stage, done, total: None,
    smoothing: float = 0.0,
) -> Summary:
    """Predict files and write OUT/<kind>/<name> for each kind, and OUT/findings.csv.

    Args:
        predictor: the model with its threshold and cleaning.
        sources: the files; see `find_sources`.
        out: folder of results; one that holds other files in the places of ours, or that another process writes to, is
            refused.
        kinds: kinds of results to write; if not given, all pictures of pictures, and films of films. Only a combined
            model has disagreements.
        advance: called with how many files, or frames of a film, are dealt with, and how many there are.
        smoothing: of films, the seconds after which a past frame counts half; 0 for each frame alone.
    """
    check_half_life(smoothing)
    if kinds is not None and (missing := set(kinds) - usual_kinds(predictor)):
        raise ValueError(f"a single model has no {', '.join(missing)}: `fpgm combine` makes a model that has")
    _claim(out)
    with sole_writer(out):
        wanted = usual_kinds(predictor) if kinds is None else set(kinds)
        folder = _Folder(predictor, out, [kind for kind in SUFFIXES if kind in wanted], kinds is None, smoothing)
        jobs = folder.jobs(sources)
        try:
            folder.run(jobs, advance)
        finally:
            folder.record.write_table(out / TABLE, folder.settings)
    return folder.summary


def usual_kinds(predictor: Predictor) -> set[Kind]:
    """Return the kinds of results that a model can make."""
    return {kind for kind in SUFFIXES if kind != "disagreements" or getattr(predictor.engine, "disagrees", False)}


class _Folder:
    """A folder of results while it is written to."""

    def __init__(self, predictor: Predictor, out: Path, kinds: Sequence[Kind], usual: bool, smoothing: float) -> None:
        self.predictor, self.out, self.smoothing = predictor, out, smoothing
        self.picture_kinds = [kind for kind in kinds if kind != "films"]
        self.film_kinds: Sequence[Kind] = ["films"] if usual else kinds  # pictures of all frames fill a disk
        self.record, self.summary = PredictionRecord(out), Summary()
        self.settings: dict[str, Any] = {
            "version": __version__,
            "model": predictor.engine.identity,
            "threshold": predictor.threshold,
            "average": predictor.average,
            "keep_largest": predictor.keep_largest,
            "min_area": predictor.min_area,
            "smoothing": smoothing,
            "kinds": list(kinds),
        }
        self.summary.settings = self.settings

    def jobs(self, sources: Sequence[Source]) -> list[_Job]:
        """Name the results of each file as before, or else so that no two share a file."""
        taken = {claim for entry in self.record.entries.values() for claim in claims(entry.name)}
        jobs = []
        for source in sources:
            image = printable(_relative(source.path, self.out))
            known = self.record.entries.get(image)
            name = known.name if known else distinct(source, taken)
            taken |= claims(name)
            jobs.append(_Job(source.path, image, name))
        self._check_links({job.name for job in jobs})
        return jobs

    def _check_links(self, names: Iterable[str]) -> None:
        """Refuse a link out of the folder at any place that will be written to or cleared."""
        folders = {self.out / kind / folder for name in names for kind in SUFFIXES for folder in _folders(name)}
        for folder in sorted(folder for folder in folders if folder.is_symlink()):
            check_inside(folder, self.out)

    def run(self, jobs: Sequence[_Job], advance: Advance) -> None:
        """Decode, compute and write beside each other: a thread before the network, and one behind it."""
        ended = 0
        written: deque[Future[int]] = deque()
        with ThreadPoolExecutor(1) as writer, closing(prefetched(self._batches(jobs))) as batches:
            for waiting, batch in batches:
                computed = [] if batch is None else self.predictor.compute(batch)
                for job in (job for job, picture in waiting if picture is None and job.film):
                    self._film(job, advance)
                written.append(writer.submit(self._write, waiting, computed))
                if len(written) > 1:
                    ended += written.popleft().result()
                    advance("files", ended, len(jobs))
            ended += sum(one.result() for one in written)
        advance("files", ended, len(jobs))

    def _batches(self, jobs: Sequence[_Job]) -> Generator[tuple[list[_Waiting], Batch | None], None, None]:
        """Let pictures of several files fill a pass, and prepare them; None if there is no picture to compute."""
        waiting: list[_Waiting] = []
        pixels: list[int] = []
        for job, picture in self._pictures(jobs):
            waiting.append((job, picture))
            if picture is not None:
                pixels.append(picture.width * picture.height)
            if not pixels or len(pixels) == self.predictor.batch_size or sum(pixels) > _MOST_PIXELS:
                yield waiting, self._prepare(waiting)
                waiting, pixels = [], []
        if waiting:
            yield waiting, self._prepare(waiting)

    def _prepare(self, waiting: Sequence[_Waiting]) -> Batch | None:
        pictures = [picture for _, picture in waiting if picture is not None]
        return self.predictor.prepare(pictures) if pictures else None

    def _pictures(self, jobs: Iterable[_Job]) -> Iterator[_Waiting]:
        """Yield the pictures of each file, and None at its end; a film has none here, see `_film`."""
        for job in jobs:
            try:
                job.sha256 = file_sha256(job.path)
                if not self._is_done(job):
                    self._clear(job)
                    job.film = is_film(job.path)
                    job.moving, pictures = (True, iter(())) if job.film else open_frames(job.path)
                    for picture in pictures:
                        yield job, picture
            except OSError as error:
                job.problem = f"cannot be opened: {error.strerror or error}"
            except ValueError as refusal:
                job.problem = str(refusal)
            yield job, None

    def _film(self, job: _Job, advance: Advance) -> None:
        """Predict a film by itself: what is found in a frame depends on those before."""

        def take(one: FoundFrame) -> None:
            self._save(job, one.frame.picture, one.found, one.time)

        def show(done: int, total: int) -> None:
            advance(f"frames of {printable(job.path.name)}", done, total)

        kinds = self.film_kinds
        try:
            done = predict_film(self.predictor, job.path, self.out, job.name, kinds, self.smoothing, take, show)
            self.summary.films.append(done)
        except Refused as refusal:
            job.problem = str(refusal)

    def _write(self, waiting: Sequence[_Waiting], computed: Sequence[Computed]) -> int:
        """Write the pictures that were computed; return how many files have come to their end."""
        rest = iter(computed)
        for job, picture in waiting:
            if picture is None:
                self._end(job)
                continue
            self._save(job, picture, self.predictor.finish(next(rest), picture.size))
        return len(waiting) - len(computed)

    def _save(self, job: _Job, picture: Image.Image, found: Predicted, time: float | None = None) -> None:
        """Write the pictures of a frame, and keep what was found in it."""
        name = frame_name(job.name, len(job.frames)) if job.moving else job.name
        save_pictures(self.out, name, picture, found, self.picture_kinds if time is None else self.film_kinds)
        doubt = min(max(1 - expected_dice(found.mask, found.probability), 0), 1)
        findings = tuple(describe(*found))
        job.frames.append(Frame(pixels=found.mask.size, findings=findings, uncertainty=doubt, time=time))

    def _end(self, job: _Job) -> None:
        if job.problem:
            self._clear(job)
            self.summary.problems.append(Skipped(job.path, job.problem))
            return
        if job.frames:
            self.record.add(self._entry(job))
            self.summary.done += 1
        else:
            self.summary.kept += 1
        frames = self.record.entries[job.image].frames
        self.summary.pictures += len(frames)
        self.summary.polyps += sum(len(frame.findings) for frame in frames)

    def _entry(self, job: _Job, sha256: str | None = None) -> Entry:
        return Entry(
            image=job.image,
            sha256=job.sha256 if sha256 is None else sha256,
            name=job.name,
            moving=job.moving,
            settings=self.settings,
            frames=tuple(job.frames),
        )

    def _is_done(self, job: _Job) -> bool:
        entry = self.record.entries.get(job.image)
        return (
            entry is not None
            and (entry.sha256, entry.settings) == (job.sha256, self.settings)
            and all(path.is_file() for path in self._files(entry, is_film(job.path)))
        )

    def _files(self, entry: Entry, film: bool) -> Iterator[Path]:
        """Yield the files of results that a file has."""
        for kind in self.film_kinds if film else self.picture_kinds:
            for name in [entry.name] if kind == "films" else entry.names():
                yield place(self.out, kind, name)

    def _clear(self, job: _Job) -> None:
        """Take away what an earlier prediction of this file has left, and keep its name."""
        job.frames.clear()
        self.record.add(self._entry(job, sha256=""))
        for kind, suffix in SUFFIXES.items():
            place(self.out, kind, job.name).unlink(missing_ok=True)
            frames = self.out / kind / job.name
            if frames.is_dir():
                for path in frames.glob(f"[0-9]*{suffix}"):
                    path.unlink()
                if not any(frames.iterdir()):
                    frames.rmdir()


def _claim(out: Path) -> None:
    """Make sure that what lies where we write is ours: masks drawn by hand must not be overwritten."""
    if not (out / RECORD).is_file():
        for name in (*SUFFIXES, TABLE):
            if (out / name).exists():
                raise ValueError(f"{out / name} was not written by `fpgm predict`: give another --out")


def _folders(name: str) -> list[PurePosixPath]:
    """Return the folders that the results of a name can be in: it has its own if it is a moving picture."""
    place = PurePosixPath(name)
    return [place, *place.parents]


def _relative(path: Path, out: Path) -> str:
    """Return the path of a file as seen from the folder of results, or whole if it is on another drive."""
    try:
        return Path(os.path.relpath(path.resolve(), out.resolve())).as_posix()
    except ValueError:
        return path.resolve().as_posix()
