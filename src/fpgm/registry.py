"""A method by name: one of ours, of an installed package, or a class that the user has named."""

from __future__ import annotations

import inspect

from fpgm.data.names import near
from fpgm.files import check_name
from fpgm.methods import METHODS
from fpgm.methods.base import Method
from fpgm.plugins import Group, import_reference, is_reference, load_plugin, plugin_names

GROUP: Group = "fpgm.methods"


def method_names() -> list[str]:
    """Return the names of all methods: ours, those imported here, and those of installed packages."""
    return list(dict.fromkeys([*METHODS, *plugin_names(GROUP)]))


def find_method(name: str) -> type[Method]:
    """Return the method of that name; ours come before those of installed packages.

    The name may have come from a file: no module is imported but those that installed packages register.
    """
    if name in METHODS:
        return METHODS[name]
    found = load_plugin(GROUP, name)
    if found is None:
        raise ValueError(f"there is no method {name!r}; {near(name, method_names())}")
    return _checked(found, name)


def import_method(given: str) -> str:
    """Return the name of the method that a user has given; ``package.module:Class`` is imported.

    Such a class is in `METHODS` then, under the name ``package.module.Class``, which is also written to the files of
    its runs. To be called with what a user has typed, never with what was read from a file.
    """
    if not is_reference(given):
        return given
    name = check_name(given.replace(":", "."), "the name of the method")
    METHODS[name] = _checked(import_reference(given), given)
    return name


def _checked(found: object, name: str) -> type[Method]:
    """Refuse what is not a whole method."""
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise ValueError(f"{name} is not a method: a method is a class derived from fpgm.methods.Method")
    if missing := sorted(found.__abstractmethods__):
        raise ValueError(f"{name} is not a whole method: it has no {' and no '.join(missing)}")
    _, *arguments = inspect.signature(found.__init__).parameters.values()
    if not arguments or arguments[0].name != "net":
        raise ValueError(f"{name} takes no network: the first argument of its __init__ is to be called net")
    for one in arguments[1:]:
        if one.default is one.empty or one.annotation is one.empty:
            raise ValueError(f"{name} cannot be configured: its argument {one.name} has no type or no default")
    return found
