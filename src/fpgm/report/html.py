"""One HTML file that needs no other: no outside hosts, pictures inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } img { max-width: 100%; } figcaption { font-size: .85em; opacity: .8; }
.notice { border-left: 4px solid #d08000; padding: .3rem .8rem; background: var(--soft); }
"""


def document(title: str, *parts: str, style: str = "") -> str:
    """Return a whole page; the parts are HTML, the title is text."""
    head = (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}{style}</style>"
    )
    return "\n".join((head, f"<h1>{escape(title)}</h1>", *parts, "</html>\n"))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts; cells that begin with a digit are numbers, and so is a column that has one."""
    number = [any(row[column][:1].isdigit() for row in rows) for column in range(len(header))]

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = (" class='number'" if is_number else "" for is_number in number)
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(header, 'th')}</tr></thead><tbody>\n{body}\n</tbody></table>"


def figure(picture: bytes, kind: str, caption: str) -> str:
    """Return a picture, given as the bytes of a file of this kind (png, jpeg), with its caption."""
    source = f"data:image/{kind};base64,{b64encode(picture).decode()}"
    text = escape(caption)
    return f"<figure><img src='{source}' alt='{text}'><figcaption>{text}</figcaption></figure>"
