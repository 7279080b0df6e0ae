"""How many cases, what they are drawn from, and what counts as a refusal.

``FPGM_FUZZ_EXAMPLES`` says how many cases each property is asked; a few if it is not set. What once failed stays as an
``@example`` above its property.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("FPGM_FUZZ_EXAMPLES", "12"))
CASES: Counter[str] = Counter()
Test = Callable[..., None]


def fuzz(**drawn: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Ask a property of so many cases, and count them."""

    def dress(test: Test) -> Test:
        @functools.wraps(test)
        def counted(*arguments: Any, **values: Any) -> None:
            CASES[f"{test.__module__}.{test.__name__}"] += 1
            test(*arguments, **values)

        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        return settings(max_examples=EXAMPLES, suppress_health_check=checks)(given(**drawn)(counted))

    return dress


@contextmanager
def refusable(path: Path | None = None) -> Iterator[None]:
    """Let pass what a user is told: a ValueError or OSError that says something and, of a file, which."""
    try:
        yield
    except (ValueError, OSError) as error:
        assert str(error).strip()
        assert path is None or path.name in str(error), f"{type(error).__name__}: {error}"


@st.composite
def spoiled(draw: st.DrawFn, whole: Sequence[bytes]) -> bytes:
    """One of several good files after a few accidents: bytes changed, put in, left out, doubled, the end cut off."""
    data = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 40)))
        accident = draw(st.sampled_from(("change", "put in", "leave out", "double", "cut")))
        if accident == "change":
            junk = draw(st.binary(min_size=1, max_size=8))
            data[start : start + len(junk)] = junk
        elif accident == "put in":
            data[start:start] = draw(st.binary(min_size=1, max_size=16))
        elif accident == "leave out":
            del data[start:stop]
        elif accident == "double":
            data[start:start] = data[start:stop]
        else:
            del data[start:]
    return bytes(data)


NUMBERS = st.one_of(
    st.integers(-3, 300),
    st.floats(),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, 1e-300, 3e38, 1e308]),
)
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "..", "../../x", "/etc/passwd", "a\0b", "a\nb", "~", "nan", "0x1", "\u2028", "%s", "{}", "[b]"]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def altered(draw: st.DrawFn, record: Any, values: st.SearchStrategy[Any] = VALUES) -> Any:
    """Take a good record of lists and dicts and replace, leave out or add something, at any depth, a few times."""
    changed = {"": deepcopy(record)}
    for _ in range(draw(st.integers(1, 3))):
        owner: Any = changed
        key: Any = ""
        while isinstance(owner[key], dict | list) and owner[key] and draw(st.booleans()):
            owner = owner[key]
            key = draw(st.sampled_from(list(owner) if isinstance(owner, dict) else range(len(owner))))
        change = draw(st.sampled_from(("replace", "leave out", "add")))
        if change == "add" and isinstance(owner[key], dict):
            owner[key][draw(WORDS)] = draw(values)
        elif change == "leave out" and owner is not changed:
            del owner[key]
        else:
            owner[key] = draw(values)
    return changed[""]


def documents(record: Any, values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[bytes]:
    """JSON that was changed by someone who knows it, or by accident."""
    whole = json.dumps(record).encode()
    return st.one_of(altered(record, values).map(lambda one: json.dumps(one).encode()), spoiled([whole]))
