"""Commands of many runs: ``fpgm reproduce`` and ``fpgm leaderboard``."""
