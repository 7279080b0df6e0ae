"""Run `fpgm` in a process that signals itself: signalled.py NUMBER FILE COUNT ARGUMENTS; see `processes.signalling`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from tests.processes import signalling

    Path.replace = signalling(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))  # type: ignore[method-assign, assignment]
    from fpgm.cli import main

    sys.exit(main(sys.argv[4:]))
