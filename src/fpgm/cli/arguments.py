"""From the words of a command line to the arguments of a command; what does not fit is refused with one sentence.

Parameters before the ``*`` in the signature of a command are positional arguments, the others are ``--options``; its
docstring is its help. `argparse` only sorts the words; types, choices and what is missing are checked here, so that all
refusals are ours.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from docstring_parser import parse

from fpgm.data.names import near, nearest

Command = Callable[..., int | None]
Commands = Mapping[str, "Command | Commands"]
_LIKENESS = 0.6  # likeness of an option from which on it is worth suggesting
_KINDS: dict[Any, tuple[str, str, Callable[[str], Any]]] = {
    Path: ("PATH", "a path", Path),
    int: ("INT", "a whole number", int),
    float: ("NUMBER", "a number", float),
    str: ("TEXT", "a text", str),
}


@dataclass(frozen=True)
class Argument:
    """An argument of a command, from its signature and docstring.

    Attributes:
        name: name of the parameter.
        meaning: what the docstring says of it.
        kind: type of one value; bool for an option without a value.
        choices: allowed texts; none if any is.
        many: whether it takes several values.
        option: whether it is given as ``--name``.
        default: value if it is not given; `Parameter.empty` if it must be given.
    """

    name: str
    meaning: str
    kind: Any
    choices: tuple[str, ...]
    many: bool
    option: bool
    default: Any

    @property
    def flag(self) -> str:
        """How it is called on the command line."""
        plain = self.name.removesuffix("_")  # of a word that Python keeps for itself
        return f"--{plain.replace('_', '-')}" if self.option else plain.upper()

    @property
    def value(self) -> str:
        """What stands for its value in the help: PATH, INT, a|b|c."""
        return "|".join(self.choices) if self.choices else _KINDS[self.kind][0]

    @property
    def required(self) -> bool:
        """Whether the command needs it."""
        return self.default is Parameter.empty

    @property
    def shown(self) -> str:
        """How it is written in a command, without brackets."""
        dots = " …" if self.many else ""
        value = f" {self.value}{dots}" if self.kind is not bool else ""
        return f"{self.flag}{value}" if self.option else f"{self.flag}{dots}"

    def convert(self, text: str, owner: str) -> Any:
        """Return the value of a text, or say what is taken instead."""
        name = f"{owner} {self.flag}"
        if self.choices:
            if text in self.choices:
                return text
            *first, last = self.choices
            allowed = f"{', '.join(first)} or {last}" if first else last
            close = nearest(text, self.choices)
            raise ValueError(f"{name} takes {allowed}, not {text!r}{f'; near it: {close[0]}' if close else ''}")
        _, words, make = _KINDS[self.kind]
        try:
            return make(text)
        except ValueError:
            raise ValueError(f"{name} takes {words}, not {text!r}") from None


def arguments_of(command: Command) -> list[Argument]:
    """Return the arguments of a command in their order."""
    hints = get_type_hints(command)
    meanings = {entry.arg_name: entry.description or "" for entry in parse(command.__doc__ or "").params}
    found = []
    for name, parameter in signature(command).parameters.items():
        kind, choices, many = _kind(hints[name])
        option = parameter.kind is Parameter.KEYWORD_ONLY
        found.append(Argument(name, meanings[name], kind, choices, many, option, parameter.default))
    return found


def _kind(hint: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return type and choices of one value, and whether there may be several, of `list[int] | None` and the like."""
    (hint,) = [part for part in get_args(hint) or (hint,) if part is not type(None)] if _is_union(hint) else [hint]
    many = get_origin(hint) is list
    if many:
        (hint,) = get_args(hint)
    return (str, get_args(hint), many) if get_origin(hint) is Literal else (hint, (), many)


def _is_union(hint: Any) -> bool:
    return type(None) in get_args(hint)


class _Parser(argparse.ArgumentParser):
    """Sorts words into options and positional arguments."""

    def error(self, message: str) -> NoReturn:
        """Refuse what `read_arguments` has no sentence for."""
        raise ValueError(f"{self.prog} cannot be given these arguments; `{self.prog} --help` lists those it takes")


def make_parser(command: Command, owner: str) -> argparse.ArgumentParser:
    """Return the parser of a command, which takes all values as texts and needs none.

    Args:
        command: the command.
        owner: what one types for it, such as ``fpgm data list``.
    """
    arguments = arguments_of(command)
    words = [one.shown if one.required else f"[{one.shown}]" for one in sorted(arguments, key=lambda one: one.option)]
    parser = _Parser(
        prog=owner,
        usage=_escape(_wrap(f"{owner} ", words)),
        description=_escape(parse(command.__doc__ or "").description or ""),
        allow_abbrev=False,
        exit_on_error=False,
    )
    for one in arguments:
        name = one.flag if one.option else one.name
        parser.add_argument(name, help=_escape(_meaning(one)), **_settings(one))
    return parser


def _settings(one: Argument) -> dict[str, Any]:
    """Return what `add_argument` takes besides name and help."""
    if one.kind is bool:
        return {"action": "store_true"}
    settings: dict[str, Any] = {
        "default": None,
        **({"dest": one.name} if one.option else {}),
        "metavar": one.value if one.option else one.flag,
    }
    if one.option:
        # an option given twice has the values of both
        return settings | ({"nargs": "+", "action": "extend"} if one.many else {})
    return settings | {"nargs": "*" if one.many else "?"}


def _meaning(one: Argument) -> str:
    """Return the help of an argument: its meaning, its choices if it is positional, and its default."""
    choices = "" if one.option or not one.choices else f" One of {', '.join(one.choices)}."
    silent = one.default is None or one.kind is bool or (one.required and not one.option)
    note = "" if silent else " (required)" if one.required else f" (default: {one.default})"
    return f"{one.meaning}{choices}{note}"


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _wrap(head: str, words: Sequence[str], width: int = 96) -> str:
    """Write words after a head in lines of this width, never breaking a word."""
    lines = [head]
    for word in words:
        if len(lines[-1]) + len(word) > width and lines[-1].strip():
            lines.append(" " * len(head))
        lines[-1] += f"{word} "
    return "\n".join(line.rstrip() for line in lines)


def read_arguments(command: Command, owner: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of all arguments of a command, or raise a `ValueError` of one sentence.

    Args:
        command: the command.
        owner: what one types for it, such as ``fpgm data list``.
        words: what follows it on the command line.
    """
    arguments = arguments_of(command)
    try:
        given, rest = make_parser(command, owner).parse_known_intermixed_args(list(words))
    except argparse.ArgumentError as error:
        raise ValueError(_wrong_count(arguments, owner, str(error.argument_name))) from None
    if rest:
        raise ValueError(_surplus(arguments, owner, rest))
    if missing := [one for one in arguments if one.required and getattr(given, one.name) in (None, [])]:
        raise ValueError(f"{owner} needs {'; and '.join(f'{one.shown}: {_clause(one)}' for one in missing)}")
    return {one.name: _value(one, getattr(given, one.name), owner) for one in arguments}


def _value(one: Argument, given: Any, owner: str) -> Any:
    """Return the value of an argument from the texts that were given for it."""
    if one.kind is bool:
        return given
    if given in (None, []):
        return one.default
    return [one.convert(text, owner) for text in given] if one.many else one.convert(given, owner)


def _wrong_count(arguments: Sequence[Argument], owner: str, flag: str) -> str:
    """Say that an option lacks its value, or has one and takes none."""
    one = next((one for one in arguments if one.flag == flag), None)
    if one is None or one.kind is bool:
        return f"{owner} {flag.rpartition('/')[2]} takes no value"
    return f"{owner} {flag} needs a value, {one.value}: {_clause(one)}"


def _surplus(arguments: Sequence[Argument], owner: str, rest: Sequence[str]) -> str:
    """Say which word is an option that there is not, or one too many."""
    flags = [one.flag for one in arguments if one.option]
    wrong = next((word.partition("=")[0] for word in rest if word.startswith("-") and word.strip("-")), None)
    if wrong is not None:
        close = [f"--{name}" for name in nearest(wrong.strip("-"), [flag[2:] for flag in flags], _LIKENESS)]
        advice = f"near it: {', '.join(close)}" if close else f"`{owner} --help` lists them"
        return f"there is no option {wrong} of {owner}; {advice}"
    places = [one.flag for one in arguments if not one.option]
    taken = f"only {' and '.join(places)} without an option" if places else "all its values with an option before them"
    extra = next((word for word in rest if word != "--"), rest[0])
    return f"{owner} takes {taken}, and has no place for {extra!r}"


def _clause(one: Argument) -> str:
    """Return what an argument is, as the end of a sentence."""
    return re.split(r"[.;] |\.$", " ".join(one.meaning.split()))[0]


def find_command(commands: Commands, words: Sequence[str], owner: str = "fpgm") -> tuple[Any, str, list[str]]:
    """Return the command that the first words name, or the group of commands, with these words and those after them."""
    found: Any = commands
    for place, word in enumerate(words):
        if not isinstance(found, Mapping) or word in ("-h", "--help"):
            return found, owner, list(words[place:])
        if word.startswith("-"):
            raise ValueError(f"{owner} takes a command before {word!r}; there are: {', '.join(found)}")
        if word not in found:
            raise ValueError(f"there is no command {word!r} of {owner}; {near(word, found)}")
        found, owner = found[word], f"{owner} {word}"
    return found, owner, []


def overview(commands: Commands, owner: str) -> str:
    """Return a line for each command, as wide as what it does in one sentence."""
    width = max(map(len, commands)) + 2
    return "\n".join(f"  {name:<{width}}{line}" for name, line in _summaries(commands))


def _summaries(commands: Commands) -> Iterator[tuple[str, str]]:
    for name, command in commands.items():
        if isinstance(command, Mapping):
            yield name, ", ".join(command)
        else:
            yield name, parse(command.__doc__ or "").short_description or ""
