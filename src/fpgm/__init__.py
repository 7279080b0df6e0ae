"""FPGM: semi-supervised segmentation guided by the frequency signature of lesion edges.

For notebooks and programs: `prepare`, `split`, `train`, `evaluate`, `predict`, `load_predictor` and `adapt`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpgm._version import __version__

if TYPE_CHECKING:
    from fpgm.api import adapt, evaluate, predict, prepare, split, train
    from fpgm.serving.predictor import load_predictor

__all__ = ["__version__", "adapt", "evaluate", "load_predictor", "predict", "prepare", "split", "train"]

_HOMES = dict.fromkeys(("adapt", "evaluate", "predict", "prepare", "split", "train"), "fpgm.api")
_HOMES["load_predictor"] = "fpgm.serving.predictor"


def __getattr__(name: str) -> Any:
    """Give a function when it is first asked for: importing the package stays quick and needs no torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
