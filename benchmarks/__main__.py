"""``make bench``: every benchmark in a process of its own, one table of all, and docs/performance.md if none failed.

``make bench TIMES=3`` runs all of them three times: the table then has the middle ratio of each row and its spread, and
a target is met only if it is met each time. ``python benchmarks NAME…`` runs some by name; ``demo``, which takes a
quarter of an hour, only so.
"""

from __future__ import annotations

from harness import ROWS, Row, number

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
from fpgm.report.plots.saving import save_figure
from fpgm.report.plots.style import COLOURS

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
ORDER = (
    *("spectrum", "step", "pauses", "norms", "methods", "runs", "metrics", "prepare", "audit", "streams", "synthetic"),
    *("inference", "predict", "evaluation", "serve", "growth"),
)
BY_NAME = ("demo",)  # run only when asked for
HEAD = ["part", "what", "ours", "beside", "", "ratio", "spread", "target", "met"]
FIGURE = "growth.png"
PEERS = ("medpy", "monai", "kornia", "onnxruntime", "pillow")

TEXT = """---
hide:
  - toc  # the table needs its place
---

# Performance

How fast the parts are beside the bare transform, the naive loop and the field's libraries, as printed by

```sh
make bench
```

on {machine}. {times}

{table}

![How costs grow](images/growth.png)

Both sides of every row are measured in one run. They take turns in one process, and the least time of each counts:
what it costs when nothing else runs. (What takes seconds or a process of its own, as the released loop, a server or
peak memory, is measured right before or after its other side; a metric's time is the median over pairs of masks,
a normalisation's ratio the median over turns, of processor time.)
`OMP_WAIT_POLICY=PASSIVE` keeps waiting threads from taking the processor of others. A ratio is our cost over the
other's, so less is better; *as fast* turns it round. Times are this machine's; run it on yours.

{missed}

What a method's cost buys is on [Methods](methods.md), which engine to choose on [Export](how-to/export.md).
"""


def together(runs: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Put the same row of all runs together, in the order of the first, the lowest ratio first."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in (row for rows in runs for row in rows):
        found.setdefault((row.part, row.what, row.against), []).append(row)
    return [sorted(rows, key=lambda row: row.ratio) for rows in found.values()]


def middle(rows: Sequence[Row]) -> Row:
    """Return the row whose ratio is in the middle."""
    return rows[len(rows) // 2]


def always_met(rows: Sequence[Row]) -> bool | None:
    """Whether the target was met in every run; None if there is none."""
    return None if rows[0].met is None else all(row.met for row in rows)


def cells(rows: Sequence[Row]) -> list[str]:
    """Return a row of all runs as text: the middle one, the spread of the ratio, and whether each met the target."""
    *first, target, _ = middle(rows).cells()
    spread = f"{number(rows[0].ratio)}–{number(rows[-1].ratio)}" if len(rows) > 1 else ""
    return [*first, spread, target, {True: "yes", False: "**no**", None: ""}[always_met(rows)]]


def table(rows: Sequence[Sequence[Row]]) -> str:
    """Write the rows of all runs as Markdown whose columns are in line."""
    lines_of_cells = [HEAD, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines_of_cells) for column in range(len(HEAD))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines_of_cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def missed(rows: Sequence[Sequence[Row]]) -> str:
    """Say which targets are missed, and what that means."""
    aimed = [one for one in rows if always_met(one) is not None]
    names = [f"{one[0].part}, {one[0].what}, beside {one[0].against}" for one in aimed if not always_met(one)]
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


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the rows that belong to curves, one small plot each."""
    from matplotlib.figure import Figure

    curves: dict[str, list[Row]] = {}
    for row in rows:
        if row.curve:
            curves.setdefault(row.curve, []).append(row)
    figure = Figure((9, 2.6 * -(-len(curves) // 3)), layout="constrained")
    for place, (name, own) in enumerate(curves.items(), 1):
        axis = figure.add_subplot(-(-len(curves) // 3), 3, place)
        what, _, across = name.partition(" by ")
        axis.semilogx([row.at for row in own], [row.ours for row in own], "o-", color=COLOURS[0], markersize=4)
        axis.set(title=what, xlabel=across, ylabel="MB" if own[0].unit == "MB" else "seconds")
        axis.set_xticks([row.at for row in own], [f"{row.at:,.0f}" for row in own], fontsize=8)
        axis.minorticks_off()
        axis.set_ylim(0, 1.1 * max(row.ours for row in own))
        axis.grid(alpha=0.3)
    save_figure(figure, path)


def main(scripts: Sequence[Path], page: Path, times: int = 1) -> int:
    """Run all, print the table, and write the page and its figure if none failed; return how many did."""
    runs, failed = [], []
    for _ in range(times):
        rows, names = run(scripts)
        runs.append(rows)
        failed += names
    rows_of_all = together(runs)
    print(f"\n{table(rows_of_all)}\n")
    if failed:
        print(f"failed: {', '.join(failed)}; {page.name} is left as it was")
        return len(failed)
    told = f"Run {times} times: the middle ratio of each row and its spread." if times > 1 else "Run once."
    text = TEXT.format(machine=machine(), times=told, table=table(rows_of_all), missed=missed(rows_of_all))
    write_text(page, text)
    draw([middle(rows) for rows in rows_of_all], page.parent / "images" / FIGURE)
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:  # some by name: they print, and no page is written
        sys.exit(len(run([HERE / f"{name}.py" for name in sys.argv[1:]])[1]))
    sys.exit(main([HERE / f"{name}.py" for name in ORDER], PAGE, int(os.environ.get("TIMES", "1"))))
