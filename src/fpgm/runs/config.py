"""``config.yaml`` as a plain record: all settings of a run, and which of them depart from the preset.

`fpgm.config.RunConfig` is the same with types and ranges; it needs the methods, and so torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fpgm.files import write_text
from fpgm.runs.folder import RunFolder

_REQUIRED = ("method", "preset", "data.store", "data.split", "data.labeled", "train.iterations", "train.seed")

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
    write_text(path, yaml.safe_dump(dict(record), sort_keys=False))


def read_config(run: Path) -> dict[str, Any]:
    """Read the settings of a run and check that those are there which every reader needs.

    ``departs`` lists the dotted keys of the settings that differ from the preset's; for one of the first runs, which
    do not say, the arguments of the method `fpgm` that do.
    """
    path = RunFolder(run).require_config()
    record = read_yaml(path.read_bytes(), str(path))
    try:
        flat = flatten(record) if isinstance(record, Mapping) else {}
    except RecursionError:
        raise ValueError(f"{path} is not readable YAML: nested too deeply") from None
    for key in _REQUIRED:
        if flat.get(key) is None:
            raise ValueError(f"{path} is not the configuration of a run: there is no {key}")
    sections = {name: record.get(name) or {} for name in ("arguments", "data", "net", "optimizer", "train")}
    if wrong := [name for name, section in sections.items() if not isinstance(section, Mapping)]:
        raise ValueError(f"{path} is not the configuration of a run: {wrong[0]} is not a section")
    return {**record, **sections, "departs": _departs(record)}


def read_yaml(text: str | bytes, source: str) -> Any:
    """Parse YAML; `source` is named where it cannot be read."""
    try:
        return yaml.safe_load(text)
    except Exception as error:  # a wrong tag makes the reader raise anything, e.g. a KeyError for `!!bool x`
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{source} is not readable YAML: {reason}") from None


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
