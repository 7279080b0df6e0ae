"""The command line; nothing else prints or exits.

A command is a typed function with a docstring, see `arguments`. Heavy imports go inside the function, so that
``--help`` is quick. A ``ValueError`` or ``OSError`` is the user's mistake: it is shown as one sentence, never as a
traceback.
"""

from __future__ import annotations

import io
import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read once, when torch is first imported

from collections.abc import Mapping, Sequence

from fpgm import __version__
from fpgm.cli import (
    adapt,
    analyze,
    combine,
    demo,
    evaluate,
    export,
    predict,
    prior,
    push,
    report,
    serve,
    train,
)
from fpgm.cli.arguments import Command, find_command, overview, read_arguments
from fpgm.cli.data import audit, listing, masks, prepare, split, suggest, synth, verify
from fpgm.cli.experiments import leaderboard, reproduce
from fpgm.cli.terminal import describe_error

COMMANDS: dict[str, Command | dict[str, Command]] = {
    "demo": demo.demo,
    "data": {
        "list": listing.list_,
        "synth": synth.synth,
        "prepare": prepare.prepare,
        "split": split.split,
        "audit": audit.audit,
        "verify": verify.verify,
        "masks": masks.masks,
    },
    "prior": {"learn": prior.learn, "show": prior.show, "compare": prior.compare},
    "train": train.train,
    "combine": combine.combine,
    "evaluate": evaluate.evaluate,
    "predict": predict.predict,
    "adapt": adapt.adapt,
    "suggest": suggest.suggest,
    "export": export.export,
    "serve": serve.serve,
    "push": push.push,
    "reproduce": reproduce.reproduce,
    "leaderboard": leaderboard.leaderboard,
    "analyze": {"signature": analyze.signature, "specificity": analyze.specificity},
    "report": report.report,
}


_ABOUT = """\
fpgm: semi-supervised polyp segmentation. `fpgm COMMAND --help` explains a command, `fpgm --version` says which this is.

{commands}

Your own images, from folders to a model:
  fpgm data prepare --images frames --masks masks --name clinic --size 192 --out store
  fpgm data split --data store --protocol strict
  fpgm train --data store --out run"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 done with problems, 2 refused."""
    if sys.flags.optimize > 1:
        print("fpgm: the help texts are missing, PYTHONOPTIMIZE=2 or -OO takes them away: use 1 or -O", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without such a letter shows a question mark
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except (ValueError, OSError) as error:
        if "FPGM_DEBUG" in os.environ:
            raise
        said = describe_error(error)
        print(said if said.startswith("fpgm ") else f"fpgm: {said}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fpgm: interrupted", file=sys.stderr)
        return 130


def _run(words: list[str]) -> int:
    """Run the command that the words name, with the arguments that follow."""
    if words[:1] == ["--version"]:
        print(f"fpgm {__version__}")
        return 0
    command, owner, rest = find_command(COMMANDS, words)
    if not isinstance(command, Mapping):
        return command(**read_arguments(command, owner, rest)) or 0
    if owner != "fpgm" and not rest:
        raise ValueError(f"{owner} needs one of its commands: {', '.join(command)}")
    lines = overview(command, owner)
    print(_ABOUT.format(commands=lines) if owner == "fpgm" else f"{owner}:\n\n{lines}")
    return 0
