"""What the program makes, for the documentation: python .ci/gallery.py docs/gallery [STEPS].

Runs the demo, and puts the pages and pictures that came out into the folder. docs/gallery.md shows them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from fpgm.cli import demo, main
from fpgm.report.plots.saving import dark_twin


def call(*words: str) -> None:
    """Run a command of ours; an audit may say that there are leaks."""
    if main([*words]) not in ((0, 1) if words[:2] == ("data", "audit") else (0,)):
        sys.exit(f"fpgm {' '.join(words)} failed")


def make(folder: Path, steps: str) -> None:
    """Compute everything in a temporary folder and copy what is shown."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        call("demo", "--out", f"{place}/demo", "--iterations", steps)
        call("data", "audit", "--data", f"{place}/demo/store", "--split", "strict-0", "--out", f"{place}/audit")
        shutil.copy(place / "demo" / "index.html", folder / "report.html")
        shutil.copy(place / "audit" / "index.html", folder / "audit.html")
        shutil.copy(place / "demo" / "store" / "phantoms.png", folder / "phantoms.png")
        found = (place / "demo" / "figures").glob("panels-unseen_*.jpg")
        [panels] = (path for path in found if dark_twin(path).is_file())
        shutil.copy(panels, folder / "panels.jpg")


if __name__ == "__main__":
    make(Path(sys.argv[1]), *(sys.argv[2:] or [str(demo.ITERATIONS)]))
