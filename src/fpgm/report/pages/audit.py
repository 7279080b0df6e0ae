"""The audit as one HTML file that needs no other: a verdict table, then pairs of pictures side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fpgm.report.pages.html import document, figure

_SIDE = 160  # pixels of a picture on the page

_STYLE = """
p:first-of-type { font-weight: 700; }
th:nth-child(n+3):not(:last-child) { text-align: right; }
.ok { color: #2a8a4a; } .repeats { color: #b07a00; } .LEAK { color: #d03030; font-weight: 700; }
.pairs { display: flex; flex-wrap: wrap; gap: 1rem; }
.pair { background: var(--soft); border-radius: 6px; padding: .6rem; }
.pair > div { display: flex; gap: .5rem; }
.pair > p { margin: .2rem 0 0; font: .85em system-ui, sans-serif; }
.pair figure { margin: 0; width: 160px; } .pair img { display: block; width: 160px; height: 160px; }
.pair figcaption { font-size: .75em; overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Section:
    """A heading and pairs of images, two ids and a note each, that stand for ``total`` of them."""

    title: str
    pairs: Sequence[tuple[str, str, str]]
    total: int


def spread(total: int, shown: int = 8) -> list[int]:
    """Choose up to ``shown`` of ``total`` places, evenly from the first to the last."""
    count = min(total, shown)
    return [k * (total - 1) // max(count - 1, 1) for k in range(count)]


def render(
    title: str,
    summary: Sequence[str],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    sections: Sequence[Section],
    picture: Callable[[str], NDArray[np.uint8]],
) -> str:
    """Return the page.

    Args:
        title: heading.
        summary: paragraphs under it.
        header: columns of the verdict table.
        rows: its cells; the last of each row is the verdict, which is also its colour.
        sections: pairs of images.
        picture: gives the image of an id, (S, S, 3).
    """
    return document(
        title,
        *(f"<p>{escape(text)}</p>" for text in summary),
        f"<table><thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr></thead><tbody>",
        *(_row(cells) for cells in rows),
        "</tbody></table>",
        *(_section(section, picture) for section in sections),
        style=_STYLE,
    )


def _row(cells: Sequence[str]) -> str:
    *values, verdict = map(escape, cells)
    texts = (f"<td class='number'>{text}</td>" if text[:1].isdigit() else f"<td>{text}</td>" for text in values)
    return f"<tr>{''.join(texts)}<td class='{verdict}'>{verdict}</td></tr>"


def _section(section: Section, picture: Callable[[str], NDArray[np.uint8]]) -> str:
    count = f"{len(section.pairs)} of {section.total} are shown."
    pairs = "\n".join(
        f"<div class='pair'><div>{_figure(picture(a), a)}{_figure(picture(b), b)}</div><p>{escape(note)}</p></div>"
        for a, b, note in section.pairs
    )
    return f"<h2>{escape(section.title)}</h2><p>{count}</p><div class='pairs'>\n{pairs}\n</div>"


def _figure(image: NDArray[np.uint8], caption: str) -> str:
    buffer = BytesIO()
    picture = Image.fromarray(image).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
    picture.save(buffer, "JPEG", quality=85)
    return figure(buffer.getvalue(), "jpeg", caption)
