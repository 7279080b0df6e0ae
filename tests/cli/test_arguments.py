"""Words of a command line, right ones and wrong ones: every refusal is one sentence of ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from fpgm import __version__
from fpgm.cli import COMMANDS, main
from fpgm.cli.arguments import Argument, arguments_of, make_parser, read_arguments

FOREIGN = ("Parser key", "<class", "usage:", "Errno", "Traceback", "Expected", "invalid", "unrecognized", "argument --")


def cook(
    dish: Path,
    spices: list[str],
    *,
    heat: int = 0,
    salt: float | None = None,
    pot: Literal["clay", "iron"] = "clay",
    lids: list[Literal["flat", "round"]] | None = None,
    guests: list[int] | None = None,
    slow_fire: bool = False,
) -> None:
    """Cook a dish.

    Args:
        dish: what is cooked. Any.
        spices: what is added; all at once.
        heat: degrees, 5% off.
        salt: grams.
        pot: which pot.
        lids: which lids.
        guests: their ages.
        slow_fire: take time.
    """


def read(*words: str) -> dict[str, Any]:
    return read_arguments(cook, "fpgm cook", words)


def refusal(*words: str) -> str:
    with pytest.raises(ValueError) as refused:
        read(*words)
    return str(refused.value)


def test_values_have_their_types_wherever_they_stand() -> None:
    values = read("soup", "--salt", "1.5", "mace", "--slow-fire", "dill", "--heat=-3", "--guests", "4", "--guests", "5")
    assert values == {
        "dish": Path("soup"),
        "spices": ["mace", "dill"],
        "heat": -3,
        "salt": 1.5,
        "pot": "clay",
        "lids": None,
        "guests": [4, 5],
        "slow_fire": True,
    }


def test_what_is_not_given_has_its_default() -> None:
    values = read("soup", "mace", "--lids", "flat", "round")
    assert (values["heat"], values["salt"], values["slow_fire"]) == (0, None, False)
    assert values["lids"] == ["flat", "round"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("soup mace --haet 3", "there is no option --haet of fpgm cook; near it: --heat"),
        ("soup mace --zzz", "there is no option --zzz of fpgm cook; `fpgm cook --help` lists them"),
        ("soup mace --he 3", "there is no option --he of fpgm cook; near it: --heat"),
        ("soup mace --heat x", "fpgm cook --heat takes a whole number, not 'x'"),
        ("soup mace --heat 1.5", "fpgm cook --heat takes a whole number, not '1.5'"),
        ("soup mace --salt much", "fpgm cook --salt takes a number, not 'much'"),
        ("soup mace --pot ion", "fpgm cook --pot takes clay or iron, not 'ion'; near it: iron"),
        ("soup mace --pot zz", "fpgm cook --pot takes clay or iron, not 'zz'"),
        ("soup mace --lids flat x", "fpgm cook --lids takes flat or round, not 'x'"),
        ("soup mace --heat", "fpgm cook --heat needs a value, INT: degrees, 5% off"),
        ("soup mace --heat --slow-fire", "fpgm cook --heat needs a value, INT: degrees, 5% off"),
        ("soup mace --guests", "fpgm cook --guests needs a value, INT: their ages"),
        ("soup mace --slow-fire=yes", "fpgm cook --slow-fire takes no value"),
        ("soup", "fpgm cook needs SPICES …: what is added"),
        ("", "fpgm cook needs DISH: what is cooked; and SPICES …: what is added"),
    ],
)
def test_wrong_words_get_a_sentence(words: str, sentence: str) -> None:
    assert refusal(*words.split()) == sentence


def test_a_word_too_many_is_named() -> None:
    def one(run: Path, *, json: bool = False) -> None:
        """Take one.

        Args:
            run: a folder.
            json: print JSON.
        """

    def none(*, out: Path) -> None:
        """Take none.

        Args:
            out: a folder.
        """

    with pytest.raises(ValueError, match="fpgm one takes only RUN without an option, and has no place for 'b'"):
        read_arguments(one, "fpgm one", ["a", "b"])
    with pytest.raises(ValueError, match=r"fpgm none takes all its values with an option .* no place for 'a'"):
        read_arguments(none, "fpgm none", ["a", "--out", "b"])


def test_the_help_says_types_in_words() -> None:
    text = " ".join(make_parser(cook, "fpgm cook").format_help().split())
    assert text.startswith("usage: fpgm cook DISH SPICES … [--heat INT] [--salt NUMBER] [--pot clay|iron]")
    assert "--heat INT degrees, 5% off. (default: 0)" in text and "class" not in text


def leaves(table: Any = COMMANDS, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in table.items():
        yield from leaves(command, (*words, name)) if isinstance(command, dict) else [((*words, name), command)]


def wrong_lines() -> Iterator[list[str]]:
    """Every command with a wrong option, choice, type, number of values and positional argument, and with nothing."""
    for words, command in leaves():
        arguments = arguments_of(command)
        needed = [word for one in arguments if one.required for word in right(one)]
        yield [*words, *needed, "--nonsense", "1"]
        if needed:
            yield list(words)
        if not any(one.many and not one.option for one in arguments):
            places = sum(not one.option for one in arguments)
            yield [*words, *needed, *["surplus"] * (places + 1)]
        for one in arguments:
            if one.option and one.kind is not bool:
                yield [*words, *needed, one.flag]
            if one.option and one.kind is bool:
                yield [*words, *needed, f"{one.flag}=1"]
            if one.choices or one.kind in (int, float):
                yield [*words, *(needed if one.option else []), *([one.flag] if one.option else []), "paperr"]
            if one.option:
                yield [*words, *needed, f"{one.flag[:-1]}{one.flag[-1] * 2}", "x"]


def right(one: Argument) -> list[str]:
    return [*([one.flag] if one.option else []), one.choices[0] if one.choices else "1"]


@pytest.mark.parametrize("line", [pytest.param(line, id=" ".join(line)) for line in wrong_lines()])
def test_every_command_refuses_in_one_line(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    shown = capsys.readouterr()
    assert not shown.out and shown.err.count("\n") == 1 and shown.err.startswith("fpgm")
    assert not [text for text in FOREIGN if text in shown.err], shown.err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("trian", "fpgm: there is no command 'trian' of fpgm; near it: train"),
        ("data lst", "fpgm: there is no command 'lst' of fpgm data; near it: list"),
        ("data", "fpgm data needs one of its commands: list, synth"),
        ("--json data list", "fpgm takes a command before '--json'; there are: demo, data"),
    ],
)
def test_a_wrong_command_gets_a_sentence(line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence) and said.count("\n") == 1


@pytest.mark.parametrize("line", [[], ["--help"], ["-h"]])
def test_alone_it_shows_all_commands(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 0
    shown = capsys.readouterr()
    named = re.findall(r"^  ([a-z]+)  ", shown.out, re.M)
    assert named == list(COMMANDS) and not shown.err


def test_groups_and_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--help"]) == 0 and "Divide prepared data sets" in capsys.readouterr().out
    assert main(["--version"]) == 0 and capsys.readouterr().out == f"fpgm {__version__}\n"


@pytest.mark.parametrize("words", [words for words, _ in leaves()], ids=" ".join)
def test_the_help_of_every_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: fpgm {' '.join(words)}") and "<class" not in shown and "Literal" not in shown


def test_every_argument_is_explained() -> None:
    for _, command in leaves():
        assert all(one.meaning for one in arguments_of(command))
        assert [one.name for one in arguments_of(command)] == list(inspect.signature(command).parameters)
