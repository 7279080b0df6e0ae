"""A model for a new site: its batch-norm statistics are replaced by those of unlabelled frames, its weights stay.

N frames of S x S pixels, prepared as for prediction.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from fpgm.data.manifest import MANIFEST
from fpgm.data.names import natural, printable
from fpgm.data.pictures import Refused, prepare_image, prepare_mask, read_mask, read_picture, read_picture_file
from fpgm.data.raw.pairs import match
from fpgm.data.store import Store
from fpgm.evaluation import predict_masks
from fpgm.files import claim
from fpgm.metrics import pair_metrics
from fpgm.model import choose_device, load_model, save_model
from fpgm.nets.statistics import ImageBatches, Moments, blend, distance, estimate, has_batchnorm, moments, shift
from fpgm.runs.card import ModelCard, Site, Statistics
from fpgm.runs.site import TOLERANCE
from fpgm.serving.folders.inputs import Source, find_sources, open_frames
from fpgm.serving.folders.predict import Skipped

Pixels = NDArray[np.uint8]
Advance = Callable[[str, int, int], None]
COUNT = 64


class Adapted(NamedTuple):
    """The card of the model that was written, and the files that were left out."""

    card: ModelCard
    problems: list[Skipped]


class _Frame(NamedTuple):
    """A prepared frame (S, S, 3), and its mask (S, S) if it has a usable one."""

    pixels: Pixels
    mask: Pixels | None


class _Inputs(NamedTuple):
    """What a user points at: prepared data sets, picture and video files, the masks of files, and a name for all."""

    stores: list[Store]
    sources: list[Source]
    masks: dict[Path, Path]
    name: str


def adapt(
    model: Path,
    frames: Sequence[str],
    out: Path,
    *,
    masks: Path | None = None,
    own: float = 0.0,
    count: int = COUNT,
    device: str = "auto",
    batch_size: int = 16,
    advance: Advance = lambda stage, done, total: None,
) -> Adapted:
    """Estimate a model's batch-norm statistics from frames and write the model that has them; see `estimate`.

    Nothing is written before all is checked and computed; the folder appears whole or not at all.

    Args:
        model: run folder or model folder.
        frames: files, folders, patterns and videos, see `find_sources`; or folders of a store's data sets.
        out: model folder to write; there must be none.
        masks: folder with masks of the frames, named as for `fpgm data prepare`; they serve to report Dice alone.
        own: share of each image's own statistics that is mixed in at prediction.
        count: largest number of frames; of more, `count` are taken, evenly spaced.
        device: device of the network.
        batch_size: frames in a pass.
        advance: called with what is being done, how much of it is, and how much there is.
    """
    _check(model, out, own, count, batch_size)
    net, card = load_model(model)
    if not has_batchnorm(net):
        raise ValueError(
            f"{model} cannot be adapted: its network, {card.net}, has no batch norm with statistics to replace; use it "
            "as it is"
        )
    inputs = _find(frames, masks, card.size)
    used, problems = _read(inputs, card.size, count, advance)
    if not used:
        raise ValueError(f"no frame can be read: {problems[0].path}: {problems[0].reason}")
    place = choose_device(device)
    net = net.to(place)
    pixels = np.stack([frame.pixels for frame in used])
    batches = ImageBatches(torch.from_numpy(pixels), batch_size, place)
    fitted = estimate(blend(net, own), batches, lambda done, total: advance("statistics", done, total))
    half, enough = convergence(moments(fitted, batches))
    site = Site(
        folder=inputs.name,
        frames=len(used),
        sha256=hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest(),
        base_sha256=card.weights_sha256,
        half_difference=half,
        enough=enough,
        shift=round(shift(net, batches), 4),
        **_measure_change(net, fitted, used, batch_size, place, advance),
    )
    written = card.model_copy(update={"statistics": Statistics(source="site", own=own, site=site)})
    return Adapted(_write(out, fitted, written, model), problems)


def convergence(found: Moments, tolerance: float = TOLERANCE) -> tuple[float | None, int | None]:
    """How far the statistics of both halves of N frames lie apart, and how many frames are enough.

    Enough are the fewest frames, of 1, 2, 4 … N / 2 spread evenly, whose statistics lie at most `tolerance` standard
    deviations from those of all, on average over the ways to spread them; None if no number is, or with fewer than
    four frames.
    """
    count, whole = len(found.mean), found.pooled()
    if count < 2:
        return None, None
    half = count // 2
    halves = distance(found.pooled(slice(half)), found.pooled(slice(half, None)), whole)
    enough = None
    fewer = half if count >= 4 else 0
    for number in (2**power for power in range(fewer.bit_length())):
        step = count // number
        parts = [found.pooled(slice(start, start + number * step, step)) for start in range(step)]
        if sum(distance(part, whole, whole) for part in parts) / step <= tolerance:
            enough = number
            break
    return round(halves, 4), enough


def _check(model: Path, out: Path, own: float, count: int, batch_size: int) -> None:
    if model.suffix.casefold() in (".onnx", ".pt2"):
        raise ValueError(
            f"{model} is an exported model, which cannot be adapted: adapt the run it was exported from, then export "
            "the result with `fpgm export`"
        )
    if not 0 <= own <= 1:
        raise ValueError(f"--own is {own}: give the share of an image's own statistics, from 0 to 1")
    if count < 1 or batch_size < 1:
        raise ValueError(f"--count is {count}, --batch-size {batch_size}: give 1 or more")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} is there already: give another --out, or delete it first")


def _find(frames: Sequence[str], masks: Path | None, size: int) -> _Inputs:
    """Find everything that is asked for before anything is read."""
    folders = [Path(text) for text in frames if (Path(text) / MANIFEST).is_file()]
    for text in frames:
        if below := sorted(path.parent.name for path in Path(text).glob(f"*/{MANIFEST}")):
            raise ValueError(f"{text} is a store: give one of its data sets, such as {Path(text) / below[0]}")
    stores = [Store.open(folder) for folder in folders]
    for store in stores:
        if store.size != size:
            raise ValueError(
                f"{store.folder} holds images of {store.size} x {store.size} pixels, but the model takes "
                f"{size} x {size}: give a store made with --size {size}, or the pictures themselves"
            )
    texts = [text for text in frames if Path(text) not in folders]
    sources = sorted(find_sources(texts), key=lambda source: natural(str(source.path))) if texts else []
    names = [*(store.folder.resolve().name for store in stores), *map(_folder_name, texts)]
    name = printable(", ".join(dict.fromkeys(names)))
    return _Inputs(stores, sources, _match_masks(sources, masks) if masks else {}, name)


def _folder_name(text: str) -> str:
    """Return the name of the folder that was given, or of the folder of a file or pattern."""
    path = Path(text)
    return (path if path.is_dir() else path.parent).resolve().name


def _match_masks(sources: Sequence[Source], folder: Path) -> dict[Path, Path]:
    """Return the mask of each file that has one, by the file's path."""
    files = {source.path.resolve(): source.path for source in sources}
    answers = [source.path.resolve() for source in find_sources([str(folder)])]
    bases = tuple({("", Path(path.anchor)) for path in (*files, *answers)})
    pairs, _ = match(files, answers, bases)
    found = {files[pair.image]: pair.mask for pair in pairs if pair.mask is not None}
    if not found:
        raise ValueError(
            f"no mask in {folder} has the name of a frame: name each mask as its frame, or leave out --masks"
        )
    return found


def _read(inputs: _Inputs, size: int, count: int, advance: Advance) -> tuple[list[_Frame], list[Skipped]]:
    """Read the frames, evenly spaced if there are too many; of a video all are decoded and few kept."""
    kept: list[_Frame] = []
    problems: list[Skipped] = []
    stride, number, total = 1, 0, sum(map(len, inputs.stores)) + len(inputs.sources)
    for done, frames in enumerate(_items(inputs, size, problems)):
        for frame in frames:
            if number % stride == 0:
                kept.append(frame)
            number += 1
            if len(kept) > 2 * count:  # so that memory holds a bounded number, whatever comes
                kept, stride = kept[::2], 2 * stride
        advance("frames", done + 1, total)
    chosen = np.linspace(0, len(kept) - 1, min(count, len(kept))).round().astype(int)
    return [kept[index] for index in chosen], problems


def _items(inputs: _Inputs, size: int, problems: list[Skipped]) -> Iterator[Iterator[_Frame]]:
    """Yield the frames of each image of a data set and of each file."""
    for store in inputs.stores:
        for row in range(len(store)):
            mask = store.masks([row])[0] if store.has_mask[row] else None
            yield iter([_Frame(store.images([row])[0], mask)])
    for source in inputs.sources:
        yield _decode(source, inputs.masks, size, problems)


def _decode(source: Source, masks: Mapping[Path, Path], size: int, problems: list[Skipped]) -> Iterator[_Frame]:
    """Decode a file; what cannot be read is noted."""
    try:
        moving, pictures = open_frames(source.path)
        for picture in pictures:
            path = None if moving else masks.get(source.path)
            mask = _mask(path, picture, size, problems) if path else None
            yield _Frame(prepare_image(picture, size), mask)
    except Refused as refusal:
        problems.append(Skipped(source.path, str(refusal)))
    except OSError as error:
        problems.append(Skipped(source.path, f"cannot be opened: {error.strerror}"))


def _mask(path: Path, picture: Image.Image, size: int, problems: list[Skipped]) -> Pixels | None:
    """Prepare a mask as for training; one that cannot be used is noted, and its frame does without."""
    try:
        label = read_picture(read_picture_file(path))
        if label.size != picture.size:
            sizes = f"{label.width} x {label.height}, its frame {picture.width} x {picture.height}"
            raise Refused("mis-sized mask", f"the mask is {sizes}")
        return prepare_mask(read_mask(label), size)
    except Refused as refusal:
        problems.append(Skipped(path, str(refusal)))
    except OSError as error:
        problems.append(Skipped(path, f"cannot be opened: {error.strerror}"))
    return None


def _measure_change(
    before: nn.Module,
    after: nn.Module,
    frames: Sequence[_Frame],
    batch_size: int,
    device: torch.device,
    advance: Advance,
) -> dict[str, Any]:
    """Count the pixels whose class differs, and score both networks on the frames that have masks."""
    changed, scores = 0.0, []
    for start in range(0, len(frames), batch_size):
        part = frames[start : start + batch_size]
        pixels = np.stack([frame.pixels for frame in part])
        both = [predict_masks(net, pixels, device) for net in (before, after)]
        changed += float((both[0] != both[1]).mean((1, 2)).sum())
        for frame, *pair in zip(part, *both, strict=True):
            if frame.mask is not None:
                scores.append([pair_metrics(mask, frame.mask, on_empty="penalise")["dice"] for mask in pair])
        advance("masks", start + len(part), len(frames))
    found: dict[str, Any] = {"changed": round(changed / len(frames), 4)}
    if scores:
        old, new = (round(float(value), 4) for value in np.mean(scores, axis=0))
        found |= {"masks": len(scores), "dice_before": old, "dice_after": new}
    return found


def _write(out: Path, net: nn.Module, card: ModelCard, base: Path) -> ModelCard:
    """Write the folder beside its place, then let it take its place; what a killed command left there is cleared."""
    out = out.resolve()
    draft = out.with_name(f".{out.name}.part")
    with claim(out.with_name(f".{out.name}.lock")) as free:
        if not free:
            raise ValueError(f"another process is writing to {out}: wait until it has ended, or give another --out")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            written = save_model(draft, net, card, base=base)
            draft.replace(out)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            out.with_name(f".{out.name}.lock").unlink(missing_ok=True)
    return written
