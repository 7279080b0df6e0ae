"""``fpgm data synth``: a store of drawn images."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fpgm.cli.data.listing import store_summary
from fpgm.cli.terminal import console, print_json, progress_bars, worker_count

if TYPE_CHECKING:
    from fpgm.data.store import Store

_SHEET = 8  # phantoms per domain on the contact sheet


def synth(
    *,
    out: Path,
    count: int = 100,
    size: int = 128,
    seed: int = 0,
    variety: Literal["wide", "plain"] = "wide",
    domains: list[str] | None = None,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Draw the phantom: imaginary colonoscopy in six domains; needs no files.

    Writes a store like that of ``fpgm data prepare`` and phantoms.png, a contact sheet with the outlines of the masks.

    Args:
        out: folder of the store to write.
        count: number of images per domain.
        size: side of the images in pixels.
        seed: seed of the drawing; the same seed gives the same bytes.
        variety: wide, polyps of all sizes, forms and colours among bulges and bubbles that are not polyps; or plain,
            polyps that resemble each other.
        domains: names of the domains, phantom-a to phantom-f; all if not given.
        workers: number of processes that draw; one for each processor if not given.
        json: print JSON for programs.
    """
    from fpgm.data.parallel import Workers
    from fpgm.data.store import open_stores
    from fpgm.data.synthetic import DOMAINS
    from fpgm.data.synthetic_store import build_phantom

    start, names = time.perf_counter(), list(dict.fromkeys(domains or DOMAINS))
    if unknown := [name for name in names if name not in DOMAINS]:
        raise ValueError(f"no phantom domain {', '.join(unknown)}; there are {', '.join(DOMAINS)}")
    with Workers(worker_count(workers)) as pool, progress_bars() as bar:
        for name in names:
            build_phantom(name, out, count, size, seed, pool, bar(name), variety)
    stores = open_stores(out, names)
    _sheet(stores, out / "phantoms.png")
    seconds = time.perf_counter() - start
    if json:
        ready = {name: store_summary(entry) for name, entry in stores.items()}
        return print_json(store=str(out), seed=seed, prepared=ready, sheet=str(out / "phantoms.png"), seconds=seconds)
    text = f"{len(names)} x {count} phantoms of {size} x {size} written to {out} in {seconds:.1f} s"
    console().print(f"{text}; look at {out / 'phantoms.png'}", highlight=False, soft_wrap=True)


def _sheet(stores: dict[str, Store], path: Path) -> None:
    """Draw the first phantoms of each domain, one row each."""
    from fpgm.report.plots.contact_sheet import contact_sheet

    columns = min(_SHEET, *map(len, stores.values()))
    rows = [(store.images(range(columns)), store.masks(range(columns))) for store in stores.values()]
    images, masks = ([picture for row in rows for picture in row[side]] for side in (0, 1))
    captions = [name if column == 0 else "" for name in stores for column in range(columns)]
    contact_sheet(images, masks, path, columns, captions)
