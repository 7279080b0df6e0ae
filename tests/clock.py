"""A clock that stands still until a test moves it."""

from __future__ import annotations


class Clock:
    """Gives the time that `now` says, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
