"""What all commands show alike."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

WIDTH = 120  # of tables that go to a file or a pipe


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or wide enough for our tables where there is none."""
    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=WIDTH)


def print_json(**values: Any) -> None:
    """Print values for a program."""
    print(json.dumps(values, indent=2, ensure_ascii=False))
