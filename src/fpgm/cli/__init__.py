"""The command line; nothing else prints or exits.

A command is a typed function with a docstring. Parameters before the ``*`` in its signature are positional arguments,
the others are ``--options``; its docstring is its help. Heavy imports go inside the function, so that ``--help`` is
quick. A ``ValueError`` or ``OSError`` is the user's mistake: it is shown as one sentence, never as a traceback.
"""

from __future__ import annotations

import io
import os
import sys
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse
from jsonargparse import ArgumentParser, Namespace

from fpgm import __version__
from fpgm.cli import (
    adapt,
    analyze,
    demo,
    evaluate,
    export,
    predict,
    prior,
    report,
    reproduce,
    serve,
    train,
)
from fpgm.cli.data import audit, listing, prepare, split, synth, verify

Command = Callable[..., int | None]
COMMANDS: dict[str, Command | dict[str, Command]] = {
    "demo": demo.demo,
    "data": {
        "list": listing.list_,
        "synth": synth.synth,
        "prepare": prepare.prepare,
        "split": split.split,
        "audit": audit.audit,
        "verify": verify.verify,
    },
    "prior": {"learn": prior.learn, "show": prior.show, "compare": prior.compare},
    "train": train.train,
    "evaluate": evaluate.evaluate,
    "predict": predict.predict,
    "adapt": adapt.adapt,
    "export": export.export,
    "serve": serve.serve,
    "reproduce": reproduce.reproduce,
    "analyze": {"signature": analyze.signature, "specificity": analyze.specificity},
    "report": report.report,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 done with problems, 2 refused."""
    if sys.flags.optimize > 1:
        print("fpgm: the help texts are missing, PYTHONOPTIMIZE=2 or -OO takes them away: use 1 or -O", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without such a letter shows a question mark
    parsed = build_parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    command: Any = COMMANDS
    while isinstance(command, dict):
        name = parsed.subcommand
        command, parsed = command[name], parsed[name]
    try:
        return command(**_values(parsed)) or 0
    except (ValueError, OSError) as error:
        if "FPGM_DEBUG" in os.environ:
            raise
        print(f"fpgm: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fpgm: interrupted", file=sys.stderr)
        return 130


def build_parser() -> ArgumentParser:
    """Return the parser of the whole command line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = ArgumentParser(prog="fpgm", description="Frequency Prior Guided Matching.", version=__version__)
    _add_commands(parser, COMMANDS)
    return parser


def _add_commands(parser: ArgumentParser, commands: dict[str, Any]) -> None:
    group = parser.add_subcommands(required=True)
    for name, command in commands.items():
        if isinstance(command, dict):
            child = ArgumentParser()
            group.add_subcommand(name, child, help=", ".join(command))
            _add_commands(child, command)
        else:
            group.add_subcommand(name, _command_parser(command), help=parse(command.__doc__ or "").short_description)


def _command_parser(command: Command) -> ArgumentParser:
    text = parse(command.__doc__ or "")
    parser = ArgumentParser(description=text.description)
    hints = get_type_hints(command)
    meaning = {entry.arg_name: entry.description for entry in text.params}
    for name, parameter in signature(command).parameters.items():
        option = parameter.kind is Parameter.KEYWORD_ONLY
        flag = f"--{name.replace('_', '-')}" if option else name
        parser.add_argument(flag, help=meaning[name], **_settings(parameter, hints[name], option))
    return parser


def _settings(parameter: Parameter, hint: Any, option: bool) -> dict[str, Any]:
    """Translate an annotation and a default to what ``add_argument`` takes."""
    if hint is bool:
        return {"action": "store_true"}
    settings: dict[str, Any] = {"type": hint}
    members = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is list]
    if members:
        (member,) = get_args(members[0])
        settings = {"type": member, "nargs": "+"}
        if get_origin(member) is Literal:
            settings |= {"type": str, "choices": get_args(member)}
        if option and parameter.default is None:
            settings["action"] = "extend"  # an option given twice has the values of both
    settings["metavar"] = None if get_origin(hint) is Literal else parameter.name.upper()
    if option and parameter.default is Parameter.empty:
        settings["required"] = True
    elif parameter.default is not Parameter.empty:
        settings["default"] = parameter.default
        if not option:
            settings["nargs"] = "?"
    return settings


def _values(parsed: Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(parsed).items() if name not in ("config", "subcommand")}
