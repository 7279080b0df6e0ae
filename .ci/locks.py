"""Write ``locks/NAME.lock`` for the core and for each extra: what it needs, in the versions of ``requirements.lock``.

Run by `make lock` in the environment that the lock file was written from; reads what is installed, and no index.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "locks"
NOT_FOR_USERS = ("docs", "dev")


def read_lock(path: Path) -> dict[str, str]:
    """Return the lines of a lock file by the canonical name of the package."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    return {canonicalize_name(line.partition("==")[0]): line for line in lines}


def closure(needed: Iterable[Requirement], lock: dict[str, str]) -> set[str]:
    """Return the names of all packages that requirements need, directly or not, as far as the lock file has them."""
    found: set[tuple[str, str]] = set()
    waiting = list(needed)
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        for extra in ("", *one.extras):
            if name not in lock or (name, extra) in found:
                continue
            found.add((name, extra))
            try:
                below = [Requirement(text) for text in requires(name) or []]
            except PackageNotFoundError:
                raise SystemExit(f"{name} is in the lock file and not installed: run `make lock`") from None
            waiting += [entry for entry in below if entry.marker is None or entry.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def locks() -> dict[str, str]:
    """Return the content of each lock file by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = read_lock(ROOT / "requirements.lock")
    extras = {name: entry for name, entry in project["optional-dependencies"].items() if name not in NOT_FOR_USERS}
    made = {}
    for name, own in {"core": [], **extras}.items():
        needed = [Requirement(text) for text in (*project["dependencies"], *own)]
        if all(canonicalize_name(one.name) in lock for one in needed):  # no tested version of the others
            chosen = closure(needed, lock)
            made[name] = "".join(f"{line}\n" for key, line in lock.items() if key in chosen)
    return made


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.lock"):
        path.unlink()
    for name, text in locks().items():
        (FOLDER / f"{name}.lock").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
