"""Ranges of arguments: the same sentence for a configuration and for a Python call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from torch import nn

from fpgm.config import arguments_model, resolve
from fpgm.methods import METHODS
from fpgm.methods.fpgm import FPGM
from tests.methods.drive import build

DATA = {"store": Path("store"), "split": "paper-0"}
ARGUMENTS = [(method, name) for method in METHODS for name in arguments_model(method).model_fields]


def has_bare_number(hint: Any) -> bool:
    """Whether a type is, or holds, a number without a range."""
    if get_origin(hint) is Annotated:
        return False
    return hint in (int, float) or any(map(has_bare_number, get_args(hint)))


@pytest.mark.parametrize(("method", "name"), ARGUMENTS)
def test_every_number_has_a_range(method: str, name: str) -> None:
    assert not has_bare_number(get_type_hints(METHODS[method].__init__, include_extras=True)[name])


@pytest.mark.parametrize(("method", "name"), ARGUMENTS)
def test_what_is_impossible_is_refused_by_the_same_sentence(method: str, name: str) -> None:
    """No argument of any method takes -1."""
    with pytest.raises(ValueError, match="does not take") as called:
        build(method, **{name: -1})
    with pytest.raises(ValueError, match="do not make a run") as configured:
        resolve("paper", method, DATA, [f"method.{name}=-1"])
    sentence = str(called.value).partition(" does not take ")[2]
    assert sentence.startswith(name) and str(configured.value).endswith(sentence)


def test_the_sentence_says_what_came_and_what_is_allowed() -> None:
    with pytest.raises(
        ValueError, match=r"^FPGM does not take threshold: Input .* less than or equal to 1 \(got 95\)$"
    ):
        FPGM(nn.Conv2d(3, 2, 1), threshold=95)


def test_arguments_may_be_given_by_place_and_keep_their_defaults() -> None:
    method = FPGM(nn.Conv2d(3, 2, 1), "paper", 0.25, gamma=[0, 0.1])  # type: ignore[arg-type]  # wrong on purpose
    assert (method.recipe, method.unsup, method.freq, method.align.gamma) == ("paper", 0.25, 0.5, (0, 0.1))


def test_an_unknown_argument_is_a_type_error_as_everywhere() -> None:
    with pytest.raises(TypeError, match="gama"):
        FPGM(nn.Conv2d(3, 2, 1), gama=1)  # type: ignore[call-arg]  # wrong on purpose
