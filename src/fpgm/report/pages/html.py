"""One HTML file that needs no other: no outside hosts, pictures inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --page: light-dark(#fff, #151618); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
body { background: var(--page); }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } img { max-width: 100%; border-radius: 4px; }
.wide { overflow-x: auto; } figcaption { font-size: .85em; opacity: .8; }
.notice { border-left: 4px solid #d08000; padding: .3rem .8rem; background: var(--soft); }
"""

TABLES = """
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); } h3 { margin-top: 2.2rem; }
.wide table { margin: .6rem 0; font-size: .8rem; line-height: 1.25; }
.wide th, .wide td { padding: .22rem .38rem .22rem 0; border: 0; vertical-align: top; }
.wide tr.first td { border-top: 1px solid var(--line); } .wide tr.aside { opacity: .72; font-size: .93em; }
.wide th { vertical-align: bottom; } .wide th.over { text-align: center; border-bottom: 1px solid var(--line); }
.wide td:first-child { position: sticky; left: 0; background: var(--page); min-width: 7rem; }
.wide td.number { white-space: nowrap; } .wide small { opacity: .75; display: block; }
.facts { font-size: .85rem; padding-left: 1.2rem; } summary { cursor: pointer; margin: .6rem 0; }
.folder { overflow-wrap: anywhere; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: .6rem; }
.gallery figure { margin: 0; } .gallery img { width: 100%; display: block; }
.gallery figcaption { overflow-wrap: anywhere; opacity: 1; font-size: .78em; }
body { max-width: min(120rem, 96vw); } body > p, body > ul, figcaption, .facts, .notice { max-width: 78rem; }
@media (prefers-color-scheme: dark) { img[src^='data:image/png'] { filter: invert(.91) hue-rotate(180deg); } }
"""


def document(title: str, *parts: str, style: str = "") -> str:
    """Return a whole page; the parts are HTML, the title is text."""
    head = (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}{style}</style>"
    )
    return "\n".join((head, f"<h1>{escape(title)}</h1>", *parts, "</html>\n"))


def figure(picture: bytes, kind: str, caption: str, least: int = 0, dark: bytes = b"") -> str:
    """Return a picture, given as the bytes of a file of this kind (png, jpeg), with its caption.

    Where the screen is narrower than `least` pixels the picture stays that wide and can be moved sideways. `dark` is
    shown instead of it in dark mode.
    """
    text = escape(caption)
    style = f" style='min-width: {least}px'" if least else ""
    image = f"<img src='{_data_url(picture, kind)}' alt='{text}'{style}>"
    if dark:
        night = f"<source media='(prefers-color-scheme: dark)' srcset='{_data_url(dark, kind)}'>"
        image = f"<picture>{night}{image}</picture>"
    return f"<figure><div class='wide'>{image}</div><figcaption>{text}</figcaption></figure>"


def gallery(tiles: Sequence[tuple[bytes, str, str]]) -> str:
    """Return JPEG pictures in a grid that fits the screen, each with a figure and a name below it."""
    return "".join(
        [
            "<div class='gallery'>",
            *(
                f"<figure><img src='{_data_url(picture, 'jpeg')}' alt='{escape(name)}, {escape(told)}'>"
                f"<figcaption><b>{escape(told)}</b> {escape(name)}</figcaption></figure>"
                for picture, told, name in tiles
            ),
            "</div>",
        ]
    )


def _data_url(picture: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(picture).decode()}"
