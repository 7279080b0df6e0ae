"""Methods and networks of other packages.

A package registers them as entry points; a user names a class by ``package.module:Class``. Nothing that a file says
imports code: a name in a file is looked up among ours and the entry points of installed packages, no more.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

Group = Literal["fpgm.methods", "fpgm.nets"]
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def plugin_names(group: Group) -> list[str]:
    """Return the names that installed packages register in a group."""
    return sorted({point.name for point in entry_points(group=group)})


def load_plugin(group: Group, name: str) -> Any:
    """Return what an installed package registers under a name, or None if no package does.

    Args:
        group: name of the group of entry points.
        name: name in that group.
    """
    found: dict[str, EntryPoint] = {point.value: point for point in entry_points(group=group, name=name)}
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"{name!r} is registered as {' and as '.join(sorted(found))}: uninstall one of the packages")
    (point,) = found.values()
    try:
        return point.load()
    except Exception as error:  # the module of another package may raise anything
        raise ValueError(
            f"{name!r} is registered as {point.value}, which cannot be imported: {_said(error)}"
        ) from error


def is_reference(text: str) -> bool:
    """Whether a text is of the form ``package.module:Class``."""
    return _REFERENCE.fullmatch(text) is not None


def import_reference(text: str) -> Any:
    """Import what ``package.module:Class`` names; modules in the working directory are found too.

    To be called with what a user has typed, never with what was read from a file.
    """
    module, _, name = text.partition(":")
    try:
        with _working_directory():
            return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ValueError(f"the module {module} has no {name}") from None
    except Exception as error:  # as above
        raise ValueError(f"{module} cannot be imported: {_said(error)}") from error


@contextmanager
def _working_directory() -> Iterator[None]:
    """Look for modules in the working directory too, after all other places, as long as one is imported."""
    place = str(Path.cwd())
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.reverse()
        sys.path.remove(place)  # the last one, which is ours
        sys.path.reverse()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
