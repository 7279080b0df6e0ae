"""The files of an analysis: numbers as JSON that carries its definitions, curves as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fpgm._version import __version__
from fpgm.analysis.halves import Comparison
from fpgm.analysis.profiles import LOW_RADII, Curve, measure_likeness
from fpgm.analysis.signature import DIVISIONS, SetSummary, Signature
from fpgm.analysis.specificity import Sample, Specificity
from fpgm.files import write_text

_LIKENESS = {
    "correlation": "of two mean radial profiles",
    "distance": "|a - b| / |a| of their shapes (each profile divided by its sum, as in Eq. 8)",
    "amplitude_distance": "|a - b| / |a| of the profiles as they are",
}
_SIGNATURE = {
    **_LIKENESS,
    "halves": f"two disjoint random halves of one set; mean over {DIVISIONS} divisions",
    "video halves": "the same, but no video is in both halves",
    "sets": "a random half of one set and a random half of the other",
    "distance_5_95": "quantiles over the divisions",
    "times_halves": "distance of two sets / the larger of the distances of their own halves",
    "times_video_halves": "the same with video halves for the sets whose videos are known, if there is one",
    "outline": "the edge band painted in its mean grey, so without texture, compared with the edge",
    "outline_distance": "distance of two sets when the outlines are compared instead of the edges",
    "spread": "root mean square distance of single images from the mean of their set",
    "generic": "the profile 1 / (r + 1)",
    "skipped": "images whose edge band is empty or black",
}
_SPECIFICITY = {
    **_LIKENESS,
    "edge": "grey image on the edge band of the polyp (Eq. 1, 2), zero elsewhere; a in the comparisons below",
    "background": "as many single pixels, drawn at random outside the polyp and its edge band (the paper's comparison)",
    "moved": "the edge band itself, shifted around the frame to a random place where all of it is background",
    "outline": "the edge band in place, painted in its mean grey",
    "grey": "mean brightness of the pixels, in [0, 1]",
    "tail": f"mean amplitude at radii r >= {LOW_RADII} / that of the edge of the same images",
    "exceeds_edge_from": "radius from which on the amplitude is above that of the edge everywhere",
    "skipped": "images whose edge band is empty or black",
}


def signature_record(result: Signature) -> dict[str, Any]:
    """Return what ``signature.json`` holds."""
    return {
        "format": "fpgm-signature-1",
        "version": __version__,
        "seed": result.seed,
        "size": result.size,
        "divisions": DIVISIONS,
        "mixture_of": list(result.mixture),
        "sets": {name: _set_record(entry) for name, entry in result.sets.items()},
        "comparisons": [_comparison_record(entry) for entry in result.comparisons],
        "definitions": _SIGNATURE,
    }


def specificity_record(result: Specificity, split: str | None) -> dict[str, Any]:
    """Return what ``specificity.json`` holds; ``split`` names the one whose train images were used."""
    return {
        "format": "fpgm-specificity-1",
        "version": __version__,
        "seed": result.seed,
        "size": result.size,
        "split": split,
        "images": result.images,
        "skipped": result.skipped,
        "samples": {name: _sample_record(entry) for name, entry in result.samples.items()},
        "definitions": _SPECIFICITY,
    }


def write_signature(result: Signature, folder: Path) -> None:
    """Write ``signature.json`` and ``signature.csv``."""
    curves: dict[tuple[str, ...], Curve] = {}
    for name, entry in result.sets.items():
        halves = {f"half {number}": half for number, half in enumerate(entry.halves, 1)}
        parts = {"all": entry.curve, **halves, "outline": entry.outline}
        curves |= {(name, part): line for part, line in parts.items()}
    _write(folder / "signature", signature_record(result), ("set", "part"), curves)


def write_specificity(result: Specificity, split: str | None, folder: Path) -> None:
    """Write ``specificity.json`` and ``specificity.csv``."""
    curves: dict[tuple[str, ...], Curve] = {(name,): entry.curve for name, entry in result.samples.items()}
    _write(folder / "specificity", specificity_record(result, split), ("sample",), curves)


def _write(
    stem: Path, record: Mapping[str, Any], keys: tuple[str, ...], curves: Mapping[tuple[str, ...], Curve]
) -> None:
    """Write the curves, a line per curve and radius, then the numbers."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*keys, "images", "radius", "mean", "sd"])
    for key, line in curves.items():
        points = zip(line.mean.tolist(), line.sd.tolist(), strict=True)
        table.writerows([*key, line.images, radius, mean, sd] for radius, (mean, sd) in enumerate(points))
    write_text(stem.with_suffix(".csv"), text.getvalue())
    write_text(stem.with_suffix(".json"), json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _set_record(entry: SetSummary) -> dict[str, Any]:
    counts = {name: getattr(entry, name) for name in ("skipped", "videos", "edge_pixels", "spread")}
    beside = {
        "generic": {name: getattr(entry.generic, name) for name in ("correlation", "distance")},
        "outline": measure_likeness(entry.curve.mean, entry.outline.mean)._asdict(),
    }
    return {"images": entry.curve.images, **counts, **_amplitudes(entry.curve), **beside}


def _comparison_record(entry: Comparison) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": entry.kind, "first": entry.first, "second": entry.second}
    record |= {**entry.likeness._asdict(), "distance_5_95": [entry.low, entry.high]}
    if entry.kind == "sets":
        names = ("times_halves", "times_video_halves", "outline_distance")
        record |= {name: getattr(entry, name) for name in names}
    return record


def _sample_record(entry: Sample) -> dict[str, Any]:
    counts = {"images": entry.curve.images, "pixels": entry.pixels, "grey": entry.grey}
    beside = {"tail": entry.tail, "exceeds_edge_from": entry.exceeds_from}
    return {**counts, **_amplitudes(entry.curve), **entry.likeness._asdict(), **beside}


def _amplitudes(line: Curve) -> dict[str, Any]:
    """Return the mean amplitude at the radii the paper speaks of, and the sum over all."""
    return {"amplitude_at_0_1_2": line.mean[:LOW_RADII].tolist(), "energy": float(line.mean.sum())}
