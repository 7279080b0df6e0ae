"""``config.yaml`` as a plain record: all settings of a run, and which of them depart from the preset.

`fpgm.config.RunConfig` is the same with types and ranges; it needs the methods, and so torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fpgm.files import check_name, read_file, write_text
from fpgm.runs.folder import RunFolder

_REQUIRED = ("method", "preset", "data.store", "data.split", "data.labeled", "train.iterations", "train.seed")
_NAMES = ("method", "preset", "data.split", "data.labeled")  # which become parts of paths
_NUMBERS = ("train.iterations", "train.seed")
_MOST_BYTES, _MOST_DEPTH = 2**16, 32

# The first runs do not say what departs. These were the arguments of the method `fpgm` then, and what presets changed.
_OLD_FPGM: dict[str, Any] = {
    "recipe": "paper",
    "unsup": 0.5,
    "freq": 0.5,
    "feature": 0.5,
    "threshold": 0.95,
    "gamma": 0.05,
    "prior": "learned",
    "prior_file": None,
    "momentum": 0.999,
    "debias": False,
    "reconstruction": "radial",
    "ramp": 0,
    "statistics": "all",
}
_OLD_PRESETS: dict[str, dict[str, Any]] = {"mini": {"ramp": 0.5, "statistics": "clean"}}


def write_config(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record that `read_yaml` and `read_config` read."""
    write_text(path, yaml.dump(dict(record), Dumper=_Dumper, sort_keys=False))


def read_config(run: Path) -> dict[str, Any]:
    """Read the settings of a run and check that those are there which every reader needs.

    ``departs`` lists the dotted keys of the settings that differ from the preset's; for one of the first runs, which
    do not say, the arguments of the method `fpgm` that do.
    """
    path = RunFolder(run).require_config()
    record = load_yaml(path)
    flat = flatten(record) if isinstance(record, Mapping) else {}
    for key in _REQUIRED:
        if flat.get(key) is None:
            raise ValueError(f"{path} is not the configuration of a run: there is no {key}")
    sections = {name: record.get(name) or {} for name in ("arguments", "data", "net", "optimizer", "train")}
    if wrong := [name for name, section in sections.items() if not isinstance(section, Mapping)]:
        raise ValueError(f"{path} is not the configuration of a run: {wrong[0]} is not a section")
    for key in _NAMES:
        if key != "data.split" or not Path(str(flat[key])).is_absolute():  # as the store may be, which is only read
            check_name(flat[key], f"{key} in {path}")
    for key in _NUMBERS:
        if type(flat[key]) is not int:
            raise ValueError(f"{path} is not the configuration of a run: {key} is {flat[key]!r}, not a whole number")
    return {**record, **sections, "departs": _departs(record)}


class _Loader(yaml.SafeLoader):
    """Reads plain YAML: no anchors, whose aliases can stand for billions of values, and no depths."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read a value with all that is in it."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # it has no types
        if event.anchor is not None:
            raise ValueError("an anchor or alias, & or *, which our files do not have")
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise ValueError(f"nested deeper than {_MOST_DEPTH} levels")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value that stands in two places twice."""
        return True


def load_yaml(path: Path) -> Any:
    """Read a file of YAML that may have come from others."""
    return read_yaml(read_file(path, most=_MOST_BYTES), str(path))


def read_yaml(text: str | bytes, source: str) -> Any:
    """Parse YAML of texts, numbers, lists and sections alone; `source` is named where it cannot be read."""
    try:
        record = _Loader(text).get_single_data()
        _check_plain(record)
    except Exception as error:  # a wrong tag makes the reader raise anything, e.g. a KeyError for `!!bool x`
        raise ValueError(f"{source} is not readable YAML: {error}") from None
    return record


def _check_plain(value: Any) -> None:
    """Refuse what JSON has no word for, such as dates and sets."""
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"{strange[0]!r} is not a text, but stands for the name of a setting")
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_plain(one)
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"{value!r} is neither a text nor a number")


def flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested sections by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _departs(record: Mapping[str, Any]) -> list[str]:
    """Return what ``departs`` lists, or works out for one of the first runs."""
    if isinstance(record.get("departs"), list):
        return [str(key) for key in record["departs"]]
    if record["method"] != "fpgm":
        return []
    usual = _OLD_FPGM | _OLD_PRESETS.get(str(record["preset"]), {})
    arguments = record.get("arguments") or {}
    return [f"arguments.{name}" for name in arguments if name not in usual or usual[name] != arguments[name]]
