"""Says at the end how many cases were tried."""

from __future__ import annotations

import pytest

from tests.fuzz.making import CASES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CASES:
        terminalreporter.write_line(f"fuzz: {sum(CASES.values()):,} cases of {len(CASES)} properties")
