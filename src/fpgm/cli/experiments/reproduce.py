"""``fpgm reproduce``: the runs behind the paper's tables and the table of unseen hospitals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fpgm.cli.experiments.axes import Runs, runs_of_plan, runs_of_tables
from fpgm.cli.experiments.axes import save_plan as make_plan_file
from fpgm.cli.experiments.engines import Needs, make_engine, usual_jobs
from fpgm.cli.experiments.watch import Display, compute
from fpgm.cli.terminal import console, print_json
from fpgm.pacing import duration

if TYPE_CHECKING:
    from fpgm.data.splits.split import Split
    from fpgm.experiments.plan import Cell
    from fpgm.experiments.runner import Outcome

_STATES = {"done": ("done", "green"), "kept": ("done before", "dim"), "failed": ("failed", "bold red")}


def reproduce(
    table: Literal[
        "main",
        "zero-shot",
        "ablation-loss",
        "ablation-prior",
        "gamma",
        "recipe",
        "ablation-teacher",
        "hospitals",
        "all",
    ]
    | None = None,
    *,
    data: Path,
    out: Path | None = None,
    plan: Path | None = None,
    save_plan: Path | None = None,
    preset: Literal["paper", "mini"] | None = None,
    protocol: list[Literal["paper", "strict"]] | None = None,
    splits: list[str] | None = None,
    draws: list[str] | None = None,
    methods: list[str] | None = None,
    labeled: list[str] | None = None,
    seeds: list[str] | None = None,
    iterations: list[str] | None = None,
    set: list[str] | None = None,
    dry_run: bool = False,
    engine: Literal["local", "ray", "slurm"] = "local",
    jobs: int | None = None,
    cpus: int | None = None,
    gpus_per_run: float | None = None,
    slurm: list[str] | None = None,
    ray_address: str | None = None,
    accelerator: str = "auto",
    precision: str | None = None,
    json: bool = False,
) -> int:
    """Compute the runs behind a table; if it was stopped or killed, the same command resumes.

    Each run is a folder OUT/SPLIT/PRESET/LABELED/NAME/seed-N, or OUT/hospitals-HOSPITAL/…: trained, then evaluated
    on all test and unseen sets. Finished runs are kept, tables share their runs, and several commands may work on one
    OUT. A run that fails is tried twice more, then reported; the exit code is then 1.

    Args:
        table: main and zero-shot (the same runs), ablation-loss, ablation-prior, gamma, or all of these, which are the
            paper's; recipe and ablation-teacher, the parts of the preset mini and of fpgm_teacher one by one; or
            hospitals, where each hospital of the store is left out of the training once. With --plan it is left out.
        data: the store that `fpgm data prepare` or `fpgm data synth` made. Its split PROTOCOL-0 is used, or the splits
            hospitals-HOSPITAL-0; they are made if they are missing.
        out: folder of all runs.
        plan: file of a plan, which says all that is to be computed and of which data; of the options below only
            --methods may be given, for other rows of the same plan. OUT is then an entry of `fpgm leaderboard`.
        save_plan: write the plan that the options make to this file, and compute nothing.
        preset: source of the defaults: the paper's setting, which is taken if none is given, or mini, for a CPU.
        protocol: protocols of the splits: paper (at random), strict (videos and near duplicates stay on one side), or
            both; paper if not given. The table hospitals has splits of its own.
        splits: seeds of the splits, with commas or spaces; 0 if not given. Each has other test images.
        draws: numbers of the draws of the labelled images of each split; 0, which is the split's own, if not given.
        methods: rows of main, zero-shot and hospitals, with commas or spaces; names and classes as `fpgm train` takes
            them, and rows of other tables, such as supervised-no-geometry of recipe. If not given, all methods of this
            package and `fpgm-released` (FPGM with the released code's recipe); for hospitals supervised, unimatch,
            fpgm, fpgm_teacher.
        labeled: numbers or percentages of training images whose masks may be used. If not given, those of the table: 5%
            10% 20%, for the paper's ablations and gamma 5% 10%, for recipe, ablation-teacher and hospitals 5%.
        seeds: seeds of weights, batches and augmentation; 0 if not given, for recipe, ablation-teacher and hospitals
            0 1 2. The split is the same for all.
        iterations: number of steps; the preset's if not given. ROW=NUMBER gives one row another number, for example to
            compare methods at equal time: --iterations 2000 supervised=4000.
        set: further settings of all runs as key=value, as `fpgm train` takes them.
        dry_run: show the plan and its estimated time, from a few real steps of each method; writes nothing.
        engine: local (this machine), ray (a Ray cluster) or slurm (an array of SLURM jobs).
        jobs: number of runs at a time on this machine, each in a process of its own, with a GPU of its own if there
            are some; with slurm the number of jobs of the array that may run at a time. If not given, one for each
            processor of a machine without a GPU, else 1.
        cpus: number of processors of each run; those of this machine divided by --jobs if not given.
        gpus_per_run: number of GPUs of each run on a cluster; 1 if not given. With ray also a part of one: 0.25 lets
            four runs share a GPU.
        slurm: options of sbatch as key=value, e.g. time=240 (minutes) partition=gpu account=ward; a run that reaches
            its time is queued again and goes on.
        ray_address: address of a Ray cluster; one is started on this machine if not given.
        accelerator: kind of device: auto, cpu, cuda, mps …, as in Lightning Fabric.
        precision: 32-true, bf16-mixed, 16-mixed, or auto: bf16-mixed on a GPU that has it, 32-true elsewhere. If not
            given, 32-true in the preset paper and auto in mini.
        json: print JSON for programs.
    """
    from fpgm.experiments.cells import is_done

    axes = {"preset": preset, "protocol": protocol, "splits": splits, "draws": draws, "methods": methods}
    axes |= {"labeled": labeled, "seeds": seeds, "iterations": iterations}
    settings = [*(set or []), *([f"train.precision={precision}"] if precision else [])]
    if save_plan is not None:
        return _save_plan(save_plan, table, data, axes, settings)
    runs = _runs(table, plan, data, out, axes, settings, save=not dry_run)
    cells = runs.cells
    if jobs is None:
        jobs = usual_jobs(engine, accelerator, sum(not is_done(cell.folder) for cell in cells))
    threads = _threads(jobs, cpus)
    if dry_run:
        return _show_plan(cells, jobs, _measure(cells, runs.splits, accelerator), json)
    output = console(stderr=json)
    if all(is_done(cell.folder) for cell in cells):
        return _show_outcomes(cells, [], output, json)
    needs = Needs(jobs, threads, accelerator, gpus_per_run, ray_address, slurm)
    computing = make_engine(engine, needs, out or Path(), output)
    outcomes = compute(cells, computing, Display(output, len(cells), alone=jobs == 1 and engine == "local"))
    return 130 if outcomes is None else _show_outcomes(cells, outcomes, output, json)


def _runs(
    table: str | None,
    plan: Path | None,
    data: Path,
    out: Path | None,
    axes: Mapping[str, Any],
    settings: Sequence[str],
    *,
    save: bool,
) -> Runs:
    """Return what is to be computed, or say what is missing."""
    if (table is None) == (plan is None):
        raise ValueError("fpgm reproduce needs a TABLE or --plan FILE, one of the two; `fpgm reproduce --help`")
    if out is None:
        raise ValueError("fpgm reproduce needs --out OUT: folder of all runs")
    if plan is None:
        return runs_of_tables(str(table), data, out, axes, settings, save=save)
    return runs_of_plan(plan, data, out, {**axes, "set": settings}, save=save)


def _save_plan(file: Path, table: str | None, data: Path, axes: Mapping[str, Any], settings: Sequence[str]) -> int:
    """Write a plan and say what it is."""
    plan = make_plan_file(file, table or "main", data, axes, settings)
    runs = len(plan.folds) * len(plan.labeled) * len(plan.methods) * len(plan.seeds)
    console().print(f"{file}: plan {plan.name} of {runs} runs, {plan.sha256}", highlight=False, soft_wrap=True)
    return 0


def _threads(jobs: int, cpus: int | None) -> int:
    """Return the number of threads of each run, and set it for this process."""
    import torch

    if jobs < 1 or (cpus is not None and cpus < 1):
        raise ValueError(f"--jobs {jobs} and --cpus {cpus}: both must be at least 1")
    threads = cpus or max(1, torch.get_num_threads() // jobs)
    torch.set_num_threads(threads)
    return threads


def _measure(cells: Sequence[Cell], splits: Mapping[str, Split], accelerator: str) -> dict[Cell, tuple[float, float]]:
    """Return the seconds of a step and of the whole run, for each cell that is not done."""
    from fpgm.experiments.timing import times

    with console(stderr=True).status("measuring") as status:

        def show(cell: Cell) -> None:
            status.update(f"measuring steps of {cell.variant.name}")

        return times(cells, splits, accelerator=accelerator, before_measuring=show)


def _show_plan(cells: Sequence[Cell], jobs: int, measured: Mapping[Cell, tuple[float, float]], json: bool) -> int:
    """Print the plan with its times."""
    total = sum(seconds for _, seconds in measured.values()) / jobs
    if json:
        named = {cell: {"step_seconds": step, "seconds": whole} for cell, (step, whole) in measured.items()}
        print_json(
            cells=[_record(cell) | {"done": cell not in named} | named.get(cell, {}) for cell in cells], seconds=total
        )
        return 0
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        rows.setdefault((cell.split, cell.labeled, cell.variant.name), []).append(cell)
    steps = sorted({cell.config().train.iterations for cell in cells})
    title = f"{cells[0].preset}, {' or '.join(map(str, steps))} iterations"
    table = Table("split", "labelled", "run", "seeds", title=title, title_justify="left")
    for name in ("runs", "done", "a step", "time"):
        table.add_column(name, justify="right")
    for names, row in rows.items():
        left = [measured[cell] for cell in row if cell in measured]
        shown = (f"{left[0][0]:.3g} s", duration(sum(whole for _, whole in left))) if left else ()
        seeds = " ".join(str(cell.seed) for cell in row)
        table.add_row(*names, seeds, str(len(row)), str(len(row) - len(left)), *shown)
    output = console()
    output.print(table)
    at_once = f", {jobs} at a time" if jobs > 1 else ""
    output.print(f"{len(measured)} of {len(cells)} runs to compute{at_once}: about {duration(total)}", highlight=False)
    return 0


def _show_outcomes(cells: Sequence[Cell], outcomes: Sequence[Outcome], output: Console, json: bool) -> int:
    """Print the outcome of each cell, or that it was done before; return 1 if any failed."""
    found = {outcome.cell: outcome for outcome in outcomes}
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    if json:
        states = {cell: {"state": outcome.state, "error": outcome.error} for cell, outcome in found.items()}
        kept = {"state": "kept", "error": None}
        print_json(cells=[_record(cell) | states.get(cell, kept) for cell in cells], failed=failed)
        return int(failed > 0)
    table = Table("split", "labelled", "run", "seed", "state", "time", "reason", title="Runs", title_justify="left")
    for cell in cells:
        outcome = found.get(cell)
        state = outcome.state if outcome else "kept"
        spent = duration(outcome.seconds) if outcome and state != "kept" else ""
        reason = Text((outcome.error if outcome else None) or "")
        names = cell.split, cell.labeled, cell.variant.name, str(cell.seed)
        table.add_row(*names, Text(*_STATES[state]), spent, reason)
    output.print(table)
    if failed:
        advice = "where it happened is in error.txt of their folders; the same command tries them again"
        output.print(f"{failed} of {len(cells)} runs failed; {advice}", highlight=False)
    return int(failed > 0)


def _record(cell: Cell) -> dict[str, Any]:
    return {
        "folder": str(cell.folder),
        "tables": list(cell.tables),
        "split": cell.split,
        "variant": cell.variant.name,
        "labeled": cell.labeled,
        "seed": cell.seed,
        "settings": list(cell.settings),
    }
