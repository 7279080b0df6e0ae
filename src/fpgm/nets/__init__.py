"""Networks: the paper's UNet with its parts, and others by name."""

from fpgm.nets.lite_unet import LiteUNet
from fpgm.nets.unet import Backbone, Decoder, UNet
from fpgm.nets.zoo import build

__all__ = ["Backbone", "Decoder", "LiteUNet", "UNet", "build"]
