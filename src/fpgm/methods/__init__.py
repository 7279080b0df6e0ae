"""Methods: ways to train the same network, one file each, asked the same questions by one contract test."""

from fpgm.methods.base import Method, Stage, Step
from fpgm.methods.fpgm import FPGM
from fpgm.methods.supervised import Supervised

METHODS: dict[str, type[Method]] = {
    "supervised": Supervised,
    "fpgm": FPGM,
}

__all__ = ["METHODS", "Method", "Stage", "Step"]
