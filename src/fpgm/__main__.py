"""``python -m fpgm``."""

from fpgm.cli import main

raise SystemExit(main())
