"""Methods: ways to train the same network, one file each, asked the same questions by one contract test."""

from fpgm.methods.abd import ABD
from fpgm.methods.ac_mt import ACMT
from fpgm.methods.base import Method, Stage, Step
from fpgm.methods.bcpnet import BCPNet
from fpgm.methods.bsnet import BSNet
from fpgm.methods.caussl import CauSSL
from fpgm.methods.cvbm import CVBM
from fpgm.methods.dycon import DyCON
from fpgm.methods.fpgm import FPGM
from fpgm.methods.fpgm_teacher import FPGMTeacher
from fpgm.methods.pick import PICK
from fpgm.methods.supervised import Supervised
from fpgm.methods.unimatch import UniMatch
from fpgm.methods.urpc import URPC

METHODS: dict[str, type[Method]] = {
    "supervised": Supervised,
    "fpgm": FPGM,
    "fpgm_teacher": FPGMTeacher,
    "urpc": URPC,
    "bsnet": BSNet,
    "ac_mt": ACMT,
    "caussl": CauSSL,
    "bcpnet": BCPNet,
    "unimatch": UniMatch,
    "abd": ABD,
    "dycon": DyCON,
    "cvbm": CVBM,
    "pick": PICK,
}

__all__ = ["METHODS", "Method", "Stage", "Step"]
