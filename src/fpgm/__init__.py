"""FPGM: semi-supervised segmentation guided by the frequency signature of lesion edges."""

from fpgm._version import __version__

__all__ = ["__version__"]
