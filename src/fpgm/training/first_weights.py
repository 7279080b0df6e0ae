"""First weights of a run from a trained model, or from a safetensors file such as an encoder's.

Letters: a tensor of the network takes the value of the tensor of the file that has its name and its shape.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from fpgm.data.batches.pool import Pool
from fpgm.data.image_facts import find_overlap, image_hashes
from fpgm.files import check_inside, file_sha256
from fpgm.model import WEIGHTS
from fpgm.runs.card import ModelCard, model_folder, read_card
from fpgm.runs.images import read_training_images
from fpgm.tensors import non_finite, read_some_tensors, tensor_shapes

SUFFIX = ".safetensors"
_MOST_PREFIXES = 64
_SHOWN = 3


@dataclass(frozen=True)
class FirstWeights:
    """Which tensors of a network got their values from a file.

    Attributes:
        source: the file.
        sha256: its hash.
        matched: names in the network.
        missing: names in the network that the file has not.
        unused: names in the file that the network has not, or has in another shape.
    """

    source: Path
    sha256: str
    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    def describe(self) -> str:
        """Write what matched and what did not in a line."""
        total = len(self.matched) + len(self.missing)
        text = f"{len(self.matched)} of the network's {total} tensors are from {self.source}"
        if self.missing:
            text += f"; new: {_shorten(self.missing)}"
        if self.unused:
            text += f"; not used: {_shorten(self.unused)}"
        return text


def base_file(path: Path) -> Path:
    """Return the file of weights of a run folder, a model folder, or a safetensors file itself."""
    if path.is_dir():
        read_card(model_folder(path))
        return model_folder(path) / WEIGHTS
    if path.suffix.casefold() != SUFFIX:
        raise ValueError(f"--from {path}: give a run folder, a model folder or a {SUFFIX} file")
    if not path.is_file():
        raise FileNotFoundError(f"--from {path}: there is no such file")
    return path


def base_card(path: Path) -> ModelCard | None:
    """Return the card of a run folder or model folder; None of a file."""
    return read_card(model_folder(path)) if path.is_dir() else None


def load_first_weights(net: nn.Module, path: Path) -> FirstWeights:
    """Put the tensors that match into a network; a file without any is refused.

    A file may have its names behind a prefix, such as ``backbone.`` or ``module.``, and the network behind another,
    such as ``encoder.``: of all such pairs, that with the most matches is taken.

    Args:
        net: the network, whose tensors get their values.
        path: run folder, model folder or safetensors file.
    """
    file = base_file(path)
    card = base_card(path)
    if card and file_sha256(file) != card.weights_sha256:
        raise ValueError(f"{file} is not the file that its card describes: copy the whole folder again")
    check_inside(file, file.parent)
    shapes, own = tensor_shapes(file), {name: tuple(value.shape) for name, value in net.state_dict().items()}
    pairs = _match(shapes, own)
    if not pairs:
        theirs, ours = next(iter(shapes), "nothing"), next(iter(own))
        raise ValueError(
            f"nothing in {file} is a tensor of this network, by name and shape: it has {theirs} "
            f"{list(shapes.get(theirs, ()))} and others, the network {ours} {list(own[ours])} and others; "
            "set net.name and net.arguments to the network that it is of"
        )
    values = read_some_tensors(file, pairs.values())
    if bad := non_finite(values):
        raise ValueError(f"{file} is of a training that has diverged: the values of {bad} are not finite")
    net.load_state_dict({name: values[theirs] for name, theirs in pairs.items()}, strict=False)
    used = set(pairs.values())
    return FirstWeights(
        file,
        file_sha256(file),
        tuple(pairs),
        tuple(name for name in own if name not in pairs),
        tuple(name for name in shapes if name not in used),
    )


def _match(shapes: dict[str, tuple[int, ...]], own: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the name in the file of each tensor of the network that the file has."""
    best: dict[str, str] = {}
    for behind in _prefixes(shapes):
        inside = {name[len(behind) :]: name for name in shapes if name.startswith(behind)}
        for before in _prefixes(own):
            names = ((name, inside.get(name[len(before) :])) for name in own if name.startswith(before))
            pairs = {name: theirs for name, theirs in names if theirs and shapes[theirs] == own[name]}
            best = pairs if len(pairs) > len(best) else best
    return best


def _prefixes(names: dict[str, Any]) -> list[str]:
    """Return what names can begin with, up to two parts deep, the most common first; nothing before all."""
    counts: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        counts.update(".".join(parts[:depth]) + "." for depth in (1, 2) if len(parts) > depth)
    return ["", *(prefix for prefix, _ in counts.most_common(_MOST_PREFIXES))]


def seen_before(path: Path, held: Pool | None) -> tuple[str, ...]:
    """Return the images of a pool that the run of a base model was trained or validated with, by their hashes.

    Args:
        path: run folder, model folder or file; only a run says what it was trained with.
        held: images that the new run will be validated or tested with.
    """
    runs = [place for place in (path, path.parent) if place.is_dir()]
    listed = next((found for place in runs if (found := read_training_images(place)) is not None), None)
    if listed is None or held is None:
        return ()
    return tuple(new for new, _ in find_overlap(image_hashes(held), listed.images).exact)


def _shorten(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
