"""The runs behind each table: the paper's tables, the parts of our recipe and method, and unseen hospitals.

A *cell* is one run: a variant of a method, a share of labels, a seed, a fold. A *fold* is a split of the store and a
draw of its labelled images, see `fpgm.experiments.folds`: the paper's tables have one, ``<protocol>-0``, unless others
are asked for, and the table `hospitals` has one for each hospital that is left out, ``hospitals-<hospital>-0``. Tables
that need the same cell share its folder, ``OUT/<fold>/<preset>/<labelled>/<variant>/seed-<n>``. The seed is that of
weights, batches and augmentation; a fold is the same for all seeds, because the paper's labelled sets are the same for
all its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from fpgm.config import Preset, RunConfig, differences, resolve
from fpgm.data.names import near
from fpgm.experiments.folds import Fold
from fpgm.methods import METHODS
from fpgm.registry import find_method, import_method
from fpgm.runs.folder import RunFolder

Table = Literal[
    "main", "zero-shot", "ablation-loss", "ablation-prior", "gamma", "recipe", "ablation-teacher", "hospitals"
]
PAPER: tuple[Table, ...] = ("main", "zero-shot", "ablation-loss", "ablation-prior", "gamma")
COMPARISONS: tuple[Table, ...] = ("main", "zero-shot", "hospitals")  # their rows are methods, of one's choice
HOSPITAL_METHODS = ("supervised", "unimatch", "fpgm", "fpgm_teacher")  # rows of `hospitals` if none are chosen
_OURS = ("data.store", "data.split", "data.labeled", "train.seed")


@dataclass(frozen=True)
class Variant:
    """A row of a table: a method and the settings that make it this row.

    Attributes:
        name: name of the row.
        method: name of the method.
        settings: `key=value`.
        source: ``package.module:Class`` of a method that the user named so; other processes import it too.
    """

    name: str
    method: str
    settings: tuple[str, ...] = ()
    source: str = ""


def _fpgm(name: str, *settings: str) -> Variant:
    return Variant(f"fpgm-{name}", "fpgm", settings)


FPGM = Variant("fpgm", "fpgm")
RELEASED = _fpgm("released", "method.recipe=released")
_METHODS = (*(Variant(name, name) for name in METHODS), RELEASED)
_SUP = Variant("supervised", "supervised")  # L_sup alone, for which FPGM needs no run of its own
_UNSUP, _FREQ = _fpgm("sup-unsup", "method.freq=0"), _fpgm("sup-freq", "method.unsup=0")
_GENERIC, _LOW_PASS = _fpgm("generic", "method.prior=generic"), _fpgm("low-pass", "method.prior=low-pass")


def _gamma(value: float) -> Variant:
    return _fpgm(f"gamma-{value:g}", f"method.gamma={value:g}")


def _recipe(name: str, *settings: str) -> Variant:
    return Variant(f"supervised-{name}", "supervised", settings)


_RECIPE = (
    _SUP,
    _recipe("poly", "optimizer.schedule=poly"),
    _recipe("low-rate", "optimizer.lr=3e-4"),
    _recipe("weight-decay", "optimizer.weight_decay=0.01"),
    _recipe("no-averaging", "train.average=0"),
    _recipe("no-geometry", "data.geometry=0"),
    _recipe("no-strong", "data.strong_labeled=0"),
    _recipe("half-size-first", "train.half_size=0.5"),
    _recipe("no-imagenet", "net.pretrained=false"),
    _recipe("unet", "net.name=unet"),
)


def _teacher(name: str, *settings: str) -> Variant:
    return Variant(f"fpgm_teacher-{name}", "fpgm_teacher", settings)


_TEACHER = (
    Variant("fpgm_teacher", "fpgm_teacher"),
    _teacher("no-teacher", "method.teacher=false"),
    _teacher("all-images", "method.images=1"),
    _teacher("early", "method.start=0.1"),
    _teacher("threshold", "method.selection=threshold"),
    _teacher("class-threshold", "method.selection=threshold", "method.threshold=[0.95, 0.7]"),
    _teacher("no-cutmix", "method.cutmix=none"),
    _teacher("cutmix-unlabeled", "method.cutmix=unlabeled"),
    _teacher("no-geometry", "data.geometry=0"),
    _teacher("aligned-radial", "method.alignment=augment", "method.reconstruction=radial", "method.gamma=0.05"),
    _teacher("aligned-ratio", "method.alignment=augment"),
    _teacher("aligned-rising", "method.alignment=augment", "method.gamma_rises=true"),
    _teacher("view-radial", "method.alignment=view", "method.reconstruction=radial", "method.gamma=0.05"),
    _teacher("view-ratio", "method.alignment=view"),
    _teacher("exchange", "method.alignment=exchange"),
    _teacher("exchange-alone", "method.alignment=exchange", "method.weight=0"),  # no pseudo-labels
    _teacher("clean-statistics", "method.statistics=clean"),
    _teacher("no-limit", "method.limit_foreground=0"),
    _teacher("share-no-limit", "method.share=0.8", "method.limit_foreground=0"),
    _teacher("start-by-foreground", "method.start_foreground=0.5"),
)

ROWS: Mapping[Table, tuple[Variant, ...]] = {
    "main": _METHODS,
    "zero-shot": _METHODS,
    "ablation-loss": (_SUP, _UNSUP, _FREQ, FPGM),
    "ablation-prior": (_GENERIC, _LOW_PASS, FPGM),
    # the text names 0.05, which is `fpgm`, and 0.1; the other values of its figure are not given, these are ours
    "gamma": (_gamma(0.01), FPGM, _gamma(0.1), _gamma(0.2), _gamma(0.5)),
    "recipe": _RECIPE,
    "ablation-teacher": _TEACHER,
    "hospitals": tuple(Variant(name, name) for name in HOSPITAL_METHODS),
}
LABELED: Mapping[Table, tuple[str, ...]] = {
    "main": ("5%", "10%", "20%"),
    "zero-shot": ("5%", "10%", "20%"),
    "ablation-loss": ("5%", "10%"),
    "ablation-prior": ("5%", "10%"),
    "gamma": ("5%", "10%"),
    "recipe": ("5%",),
    "ablation-teacher": ("5%",),
    "hospitals": ("5%",),
}
# The paper gives one figure per cell, and says "the same random seeds" without a number.
SEEDS: Mapping[Table, tuple[int, ...]] = {**dict.fromkeys(ROWS, (0, 1, 2)), **dict.fromkeys(PAPER, (0,))}


@dataclass(frozen=True)
class Cell:
    """One run; plain values, so that it can be sent to another process.

    Attributes:
        folder: folder of the run.
        variant: row of the table.
        labeled: number N or percentage P% of labelled training images.
        seed: seed of the training.
        preset: source of the defaults.
        store: the prepared data.
        split: name of a split of the store.
        settings: settings that differ from the preset, `key=value`.
        tables: all tables that show it, also those that were not asked for.
    """

    folder: Path
    variant: Variant
    labeled: str
    seed: int
    preset: Preset
    store: Path
    split: str
    settings: tuple[str, ...]
    tables: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name in messages and tables."""
        return f"{self.split} {self.labeled} {self.variant.name} seed {self.seed}"

    def config(self) -> RunConfig:
        """The whole configuration of the run."""
        if self.variant.source:
            import_method(self.variant.source)
        data = {"store": self.store, "split": self.split, "labeled": self.labeled}
        return resolve(self.preset, self.variant.method, data, self.settings)


def rows_of(table: Table, methods: Sequence[str] | None = None) -> tuple[Variant, ...]:
    """Return the rows of a table; `methods` chooses those of the comparisons, see `variant_of`."""
    if methods is None or table not in COMPARISONS:
        return ROWS[table]
    return tuple(dict.fromkeys(map(variant_of, methods)))


def variant_of(method: str) -> Variant:
    """Return the row of that name of any table, or of a method; ``package.module:Class`` is imported."""
    known = {variant.name: variant for rows in ROWS.values() for variant in rows}
    if method in known:
        return known[method]
    name = import_method(method)
    find_method(name)  # refuses the name and shows those near it
    return Variant(name, name, source=method if name != method else "")


def plan(
    tables: Iterable[Table],
    *,
    store: Path,
    out: Path,
    folds: Sequence[Fold] = (Fold("paper"),),
    preset: Preset = "paper",
    methods: Sequence[str] | None = None,
    labeled: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Sequence[str] = (),
    iterations: Mapping[str, int] = MappingProxyType({}),
) -> list[Cell]:
    """Return the cells of tables, each once: a seed of all folds before the next, the smallest share of labels first.

    Args:
        tables: names of the tables.
        store: the prepared data.
        out: folder of all cells.
        folds: splits of the store; every cell is computed on each of them.
        preset: preset of all runs.
        methods: rows of the tables that compare methods; each table's own if not given.
        labeled: shares of labels; each table's own if not given.
        seeds: seeds of the training; each table's own if not given.
        settings: `key=value` for all runs.
        iterations: number of steps of single rows; the others have that of the settings.
    """
    tables = list(tables)
    compares = any(table in COMPARISONS for table in tables)
    if methods is not None and not compares:
        raise ValueError(
            f"{', '.join(tables)} has rows of its own: leave --methods out, or choose one of {', '.join(COMPARISONS)}"
        )
    wanted = [
        (share, variant)
        for table in tables
        for share in (labeled or LABELED[table])
        for variant in rows_of(table, methods)
    ]
    shares = list(labeled or dict.fromkeys(share for own in LABELED.values() for share in own))
    wanted.sort(key=lambda pair: shares.index(pair[0]))
    _check_settings(settings, [variant for _, variant in wanted])
    rows = {variant.name for _, variant in wanted}
    if strange := [row for row in iterations if row not in rows]:
        raise ValueError(f"--iterations names {strange[0]!r}, which is no row; {near(strange[0], rows)}")
    store, out = store.resolve(), out.resolve()
    return [
        Cell(
            folder=out / fold.folder / preset / share.replace("%", "pct") / variant.name / f"seed-{seed}",
            variant=variant,
            labeled=share,
            seed=seed,
            preset=preset,
            store=store,
            split=fold.split,
            settings=(
                *_settings_of(variant, settings, compares),
                *([f"train.iterations={iterations[variant.name]}"] if variant.name in iterations else []),
                f"train.seed={seed}",
            ),
            tables=_tables_of(variant, fold),
        )
        for seed in dict.fromkeys(seeds or [seed for table in tables for seed in SEEDS[table]])
        for fold in folds
        for share, variant in dict.fromkeys(wanted)
    ]


def check(cells: Iterable[Cell]) -> None:
    """Refuse settings that make no run, and folders whose run was started with others."""
    for cell in cells:
        config, path = cell.config(), RunFolder(cell.folder).config
        changed = differences(RunConfig.load(path), config) if path.is_file() else []
        if changed:
            raise ValueError(
                f"{cell.folder} was computed with other settings: {'; '.join(changed)}. Give another --out"
            )


def _tables_of(variant: Variant, fold: Fold) -> tuple[str, ...]:
    """Return all tables that show a variant; one that no table has by itself was asked for in a comparison."""
    tables: tuple[Table, ...] = ("hospitals",) if fold.left_out else (*PAPER, "recipe", "ablation-teacher")
    shown = tuple(table for table in tables if variant in ROWS[table])
    return shown or tuple(table for table in tables if table in COMPARISONS)


def _settings_of(variant: Variant, settings: Sequence[str], compares: bool) -> tuple[str, ...]:
    """Return the given settings and those of a row.

    In an ablation of FPGM the row with L_sup alone is `supervised`, which does not take FPGM's arguments. The feature
    term of the released recipe is part of its L_unsup and is removed with it.
    """
    if variant == _SUP and not compares:
        settings = [setting for setting in settings if not setting.startswith("method.")]
    released = dict(setting.partition("=")[::2] for setting in settings).get("method.recipe") == "released"
    tied = ("method.feature=0",) if released and variant == _FREQ else ()
    return (*settings, *variant.settings, *tied)


def _check_settings(settings: Iterable[str], variants: Iterable[Variant]) -> None:
    """Refuse settings that the plan makes itself."""
    own = {*_OURS, *(setting.partition("=")[0] for variant in variants for setting in variant.settings)}
    for setting in settings:
        key = setting.partition("=")[0]
        if key in own:
            raise ValueError(f"{key} is what the cells of this plan differ in: leave it out of --set")
