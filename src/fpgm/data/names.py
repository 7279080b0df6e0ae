"""How names of files and images are sorted and written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def natural(text: str) -> tuple[list[str | int], str]:
    """Sort key by which 2 comes before 10."""
    parts: list[str | int] = list(re.split("([0-9]+)", text))
    parts[1::2] = [int(number) for number in parts[1::2]]
    return parts, text


def printable(name: str) -> str:
    r"""Write bytes of a file's name that are not text, which Python shows as "\udcff", with a backslash."""
    return name.encode("utf-8", "backslashreplace").decode()


def abbreviate(names: Iterable[str]) -> str:
    """Write a list for a message: the first three, and how many more."""
    names = list(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def near(name: str, valid: Iterable[str]) -> str:
    """Write for a message which of the valid names are nearest to a wrong one, or all of them if none is near."""
    known = list(valid)
    close = nearest(name, known)
    return f"near it: {', '.join(close)}" if close else f"there are: {', '.join(known)}"


def nearest(name: str, valid: Iterable[str], likeness: float = 0.4) -> list[str]:
    """Return up to three of the valid names that are like a wrong one, the nearest first."""
    return difflib.get_close_matches(name, list(valid), n=3, cutoff=likeness)


def plural(count: int, noun: str) -> str:
    """Write a number with its noun: 1 row, 2 rows."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
