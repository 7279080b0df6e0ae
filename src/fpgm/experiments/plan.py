"""Which runs make which table of the paper.

A *cell* is one run: a variant of a method, a share of labels, a seed. Tables that need the same cell share its folder,
``OUT/<protocol>/<preset>/<labelled>/<variant>/seed-<n>``. The seed is that of weights, batches and augmentation; the
split is the same for all seeds, ``<protocol>-0``, because the paper's labelled sets are the same for all its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fpgm.config import Preset, RunConfig, arguments_model, differences, resolve
from fpgm.data.protocols import Protocol, draw
from fpgm.data.splits import Split
from fpgm.data.store import open_stores
from fpgm.methods import METHODS

Table = Literal["main", "zero-shot", "ablation-loss", "ablation-prior", "gamma"]
COMPARISONS: tuple[Table, ...] = ("main", "zero-shot")  # the same runs, seen on other test sets
SPLIT_SEED = 0
SEEDS = (0,)  # the paper gives one figure per cell, and says "the same random seeds" without a number
_OURS = ("data.store", "data.split", "data.labeled", "train.seed")


@dataclass(frozen=True)
class Variant:
    """A row of a table: a method and the settings that make it this row."""

    name: str
    method: str
    settings: tuple[str, ...] = ()


def _fpgm(name: str, *settings: str) -> Variant:
    return Variant(f"fpgm-{name}", "fpgm", settings)


FPGM = Variant("fpgm", "fpgm")
RELEASED = _fpgm("released", "method.recipe=released")
_METHODS = tuple(Variant(name, name) for name in METHODS)
_SUP, _UNSUP, _FREQ = (
    _fpgm("sup", "method.unsup=0", "method.freq=0"),
    _fpgm("sup-unsup", "method.freq=0"),
    _fpgm("sup-freq", "method.unsup=0"),
)
_GENERIC, _LOW_PASS = _fpgm("generic", "method.prior=generic"), _fpgm("low-pass", "method.prior=low-pass")


def _gamma(value: float) -> Variant:
    return _fpgm(f"gamma-{value:g}", f"method.gamma={value:g}")


ROWS: Mapping[Table, tuple[Variant, ...]] = {
    "main": _METHODS,
    "zero-shot": _METHODS,
    "ablation-loss": (_SUP, _UNSUP, _FREQ, FPGM),
    "ablation-prior": (_GENERIC, _LOW_PASS, FPGM),
    # the text names 0.05, which is `fpgm`, and 0.1; the other values of its figure are not given, these are ours
    "gamma": (_gamma(0.01), FPGM, _gamma(0.1), _gamma(0.2), _gamma(0.5)),
}
LABELED: Mapping[Table, tuple[str, ...]] = {
    "main": ("5%", "10%", "20%"),
    "zero-shot": ("5%", "10%", "20%"),
    "ablation-loss": ("5%", "10%"),
    "ablation-prior": ("5%", "10%"),
    "gamma": ("5%", "10%"),
}


@dataclass(frozen=True)
class Cell:
    """One run; plain values, so that it can be sent to another process.

    Attributes:
        folder: of the run.
        variant: what is trained.
        labeled: N or P% of the training images.
        seed: of the training.
        preset: where the defaults come from.
        store: the prepared data.
        split: name of a split of the store.
        settings: all that differs from the preset, `key=value`.
    """

    folder: Path
    variant: Variant
    labeled: str
    seed: int
    preset: Preset
    store: Path
    split: str
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{self.labeled} {self.variant.name} seed {self.seed}"

    @property
    def tables(self) -> list[str]:
        """All tables that show it, also those nobody asked for now."""
        return [table for table, rows in ROWS.items() if self.variant in rows] or list(COMPARISONS)

    def config(self) -> RunConfig:
        """The whole configuration of the run."""
        data = {"store": self.store, "split": self.split, "labeled": self.labeled}
        return resolve(self.preset, self.variant.method, data, self.settings)


def rows_of(table: Table, methods: Sequence[str] | None = None) -> tuple[Variant, ...]:
    """Return the rows of a table; `methods` chooses those of the comparisons, `fpgm-released` only if named."""
    if methods is None or table not in COMPARISONS:
        return ROWS[table]
    known = {variant.name: variant for variant in (*_METHODS, RELEASED)}
    for name in methods:
        if name not in known:
            arguments_model(name)  # refuses the name and shows those near it
    return tuple(known[name] for name in dict.fromkeys(methods))


def plan(
    tables: Iterable[Table],
    *,
    store: Path,
    out: Path,
    protocol: Protocol = "paper",
    preset: Preset = "paper",
    methods: Sequence[str] | None = None,
    labeled: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    settings: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells of tables, each once: all rows of the first seed at the smallest share of labels come first.

    Args:
        tables: what is to be filled.
        store: the prepared data.
        out: folder of all cells.
        protocol: whose split is used.
        preset: of all runs.
        methods: rows of `main` and `zero-shot`; all methods if not given.
        labeled: shares of labels; each table's own if not given.
        seeds: of the training.
        settings: `key=value` for all runs.
    """
    tables = list(tables)
    if methods is not None and not any(table in COMPARISONS for table in tables):
        raise ValueError(f"{', '.join(tables)} has rows of its own: leave --methods out, or choose main or zero-shot")
    wanted = [
        (share, variant)
        for table in tables
        for share in (labeled or LABELED[table])
        for variant in rows_of(table, methods)
    ]
    shares = list(labeled or LABELED["main"])
    wanted.sort(key=lambda pair: shares.index(pair[0]))
    _check_settings(settings, [variant for _, variant in wanted])
    store, out, split = store.resolve(), out.resolve(), f"{protocol}-{SPLIT_SEED}"
    return [
        Cell(
            folder=out / protocol / preset / share.replace("%", "pct") / variant.name / f"seed-{seed}",
            variant=variant,
            labeled=share,
            seed=seed,
            preset=preset,
            store=store,
            split=split,
            settings=(*settings, *variant.settings, f"train.seed={seed}"),
        )
        for seed in dict.fromkeys(seeds)
        for share, variant in dict.fromkeys(wanted)
    ]


def check(cells: Iterable[Cell]) -> None:
    """Refuse settings that make no run, and folders whose run was started with others."""
    for cell in cells:
        config, path = cell.config(), cell.folder / "config.yaml"
        changed = differences(RunConfig.load(path), config) if path.is_file() else []
        if changed:
            raise ValueError(
                f"{cell.folder} was computed with other settings: {'; '.join(changed)}. Give another --out"
            )


def find_split(store: Path, protocol: Protocol, *, save: bool) -> Split:
    """Return the store's split of a protocol; where there is none it is drawn and, if asked, saved."""
    folder = store / "splits" / f"{protocol}-{SPLIT_SEED}"
    if (folder / "split.json").is_file():
        split = Split.load(folder)
        if (split.protocol, split.seed) != (protocol, SPLIT_SEED):
            raise ValueError(f"{folder} holds a split {split.protocol}-{split.seed}: rename that folder")
        return split
    split = draw(open_stores(store), protocol, SPLIT_SEED)
    if save:
        split.save(folder)
    return split


def _check_settings(settings: Iterable[str], variants: Iterable[Variant]) -> None:
    """Refuse settings that the plan makes itself."""
    own = {*_OURS, *(setting.partition("=")[0] for variant in variants for setting in variant.settings)}
    for setting in settings:
        key = setting.partition("=")[0]
        if key in own:
            raise ValueError(f"{key} is what the cells of this plan differ in: leave it out of --set")
