"""``data.json``: hashes of the images that a run was begun with, so that it goes on with no others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fpgm.files import parse_json, read_file, write_text
from fpgm.runs.folder import RunFolder


def check_images(run: Path, hashes: Mapping[str, str | None], store: Path) -> None:
    """Write the hashes of a new run; refuse a run that was begun with other images.

    Args:
        run: run folder.
        hashes: hash of each pool of images by its name; None where the run has no such pool.
        store: store that holds them, for the message.
    """
    path = RunFolder(run).images
    if not path.is_file():
        write_text(path, json.dumps(dict(hashes), indent=1) + "\n")
        return
    try:
        known = dict(parse_json(read_file(path)))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it if {store} is unchanged") from None
    if changed := [name for name in hashes if known.get(name) != hashes[name]]:
        raise ValueError(
            f"{run} was begun with other images: {' and '.join(changed)} ones of {store} have changed. "
            "Put the old store in its place, or give another --out"
        )
