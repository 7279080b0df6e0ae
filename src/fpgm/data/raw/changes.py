"""What a store would lose or change if it were prepared again: a person is asked before that happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fpgm.data.manifest import Manifest
from fpgm.data.names import abbreviate
from fpgm.data.pictures import rules
from fpgm.data.raw.decoding import Input


def check_changes(old: Manifest, inputs: Sequence[Input], size: int, keep_empty: bool, source: str) -> None:
    """Raise ``ValueError`` if images of a store would vanish or change; that some are added is no change.

    Args:
        old: what the store holds.
        inputs: what it would be made of.
        size: side of the images.
        keep_empty: whether frames without polyps would be kept.
        source: layout of the folders.
    """
    found = [*_settings(old, size), *_images(old, {item.pair.id: item for item in inputs}, keep_empty)]
    if found:
        other = f" (from {source}, before from {old.source})" if source != old.source else ""
        raise ValueError(
            f"{old.name} is in the store already, and {'; '.join(found)}{other}; add --replace to prepare it anew, or "
            "choose another --name or --out"
        )


def _settings(old: Manifest, size: int) -> Iterator[str]:
    if old.size != size:
        yield f"its images are {old.size} x {old.size}, not {size} x {size}"
    if old.rules not in (rules(True), rules(False)):
        yield "it was prepared by other rules than those of this release"


def _images(old: Manifest, new: Mapping[str, Input], keep_empty: bool) -> Iterator[str]:
    stays = [row for row in old.images if row.id in new]
    changes = {
        "would vanish": [row for row in old.images if row.id not in new],
        "would be other pictures": [row for row in stays if row.image_sha256 != new[row.id].image_sha256],
        "would have another mask": [row for row in stays if _changes(row.mask_sha256, new[row.id].mask_sha256)],
        "would have another group": [row for row in stays if _changes(row.group, new[row.id].pair.group)],
        "would be in another part": [row for row in stays if _changes(row.part, new[row.id].pair.part)],
        "would be left out, for their masks are empty": []
        if keep_empty
        else [row for row in stays if row.foreground == 0],
    }
    for what, rows in changes.items():
        if rows:
            yield f"{len(rows)} of its {len(old.images)} images {what} ({abbreviate(row.id for row in rows)})"


def _changes(before: str | None, after: str | None) -> bool:
    """Whether something that was known is another or is lost; that it becomes known is no change."""
    return before is not None and before != after
