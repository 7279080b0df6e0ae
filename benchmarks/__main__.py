"""``make bench``: every benchmark in a process of its own, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run all benchmarks and return how many failed."""
    failed = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in ("__main__", "harness"):
            print(f"\n== {path.stem} ==", flush=True)
            failed += subprocess.run([sys.executable, path], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
