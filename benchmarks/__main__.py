"""``make bench``: every benchmark in a process of its own, one table of all, and docs/performance.md if none failed.

``python benchmarks NAME…`` runs some of them by name; ``demo``, which takes a quarter of an hour, only so.
"""

from __future__ import annotations

from harness import ROWS, Row

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from fpgm.files import write_text

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
ORDER = (
    *("spectrum", "step", "norms", "methods", "runs", "metrics", "prepare", "audit", "streams", "synthetic"),
    *("inference", "evaluation", "serve", "growth"),
)
BY_NAME = ("demo",)  # run only when asked for
HEAD = ["part", "what", "ours", "beside", "", "ratio", "target", "met"]
PEERS = ("medpy", "monai", "kornia", "onnxruntime", "pillow")

TEXT = """# Performance

How fast the parts are beside the bare transform, the naive loop and the field's libraries, as printed by

```sh
make bench
```

on {machine}.

{table}

Both sides of every row are measured in this one run. They take turns in one process, and the least time of each counts:
what it costs when nothing else runs. (What takes seconds or a process of its own, as the released loop, a server or
peak memory, is measured right before or after its other side; a metric's time is the median over pairs of masks,
a normalisation's ratio the median over turns, of processor time.)
`OMP_WAIT_POLICY=PASSIVE` keeps waiting threads from taking the processor of others. A ratio is our cost over the
other's, so less is better; *as fast* turns it round. Times are this machine's; run it on yours.

{missed}

What a method's cost buys is on [Methods](methods.md), which engine to choose on [Export](how-to/export.md).
"""


def table(rows: Sequence[Row]) -> str:
    """Write the rows as Markdown whose columns are in line."""
    cells = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def missed(rows: Sequence[Row]) -> str:
    """Say which targets are missed, and what that means."""
    aimed = [row for row in rows if row.met is not None]
    names = [f"{row.part}, {row.what}, beside {row.against}" for row in aimed if not row.met]
    if not names:
        return f"All {len(aimed)} targets are met."
    return (
        f"{len(names)} of {len(aimed)} targets are missed: {'; '.join(names)}.\n"
        "There a part costs more on this machine than was asked for; why, and what was tried, is in the [log](log.md)."
    )


def machine() -> str:
    """Describe what this runs on, without its name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    hardware = f"{(models or [platform.machine()])[0]}, {os.cpu_count()} cores, {size:.0f} GiB of memory"
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    return f"{hardware}; {platform.system()}, Python {platform.python_version()}, torch {version('torch')}, {peers}"


def run(scripts: Sequence[Path]) -> tuple[list[Row], list[str]]:
    """Run the benchmarks one after the other; return their rows and the names of those that failed."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        collected = Path(folder) / "rows"
        collected.touch()
        for path in scripts:
            print(f"\n== {path.stem} ==", flush=True)
            start = time.perf_counter()
            done = subprocess.run([sys.executable, path], env={**os.environ, ROWS: str(collected)}, check=False)
            failed += [path.stem] if done.returncode else []
            print(f"  took {time.perf_counter() - start:.0f} s", flush=True)
        lines = collected.read_text(encoding="utf-8").splitlines()
    return [Row(**json.loads(line)) for line in lines], failed


def main(scripts: Sequence[Path], page: Path) -> int:
    """Run all, print the table, and write the page if none failed; return how many did."""
    rows, failed = run(scripts)
    print(f"\n{table(rows)}\n")
    if failed:
        print(f"failed: {', '.join(failed)}; {page.name} is left as it was")
    else:
        write_text(page, TEXT.format(machine=machine(), table=table(rows), missed=missed(rows)))
    return len(failed)


if __name__ == "__main__":
    if sys.argv[1:]:  # some by name: they print, and no page is written
        sys.exit(len(run([HERE / f"{name}.py" for name in sys.argv[1:]])[1]))
    sys.exit(main([HERE / f"{name}.py" for name in ORDER], PAGE))
