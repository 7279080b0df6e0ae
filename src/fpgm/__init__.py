"""FPGM: semi-supervised segmentation guided by the frequency signature of lesion edges."""

from typing import TYPE_CHECKING, Any

from fpgm._version import __version__

if TYPE_CHECKING:
    from fpgm.serving.predictor import load_predictor

__all__ = ["__version__", "load_predictor"]


def __getattr__(name: str) -> Any:
    """Give `load_predictor` when it is first asked for: importing the package stays quick and needs no torch."""
    if name == "load_predictor":
        from fpgm.serving.predictor import load_predictor

        return load_predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
