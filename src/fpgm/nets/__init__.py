"""Networks: the paper's UNet, a UNet with a pretrained encoder, their parts, and MONAI's networks by name."""

from fpgm.nets.lite_unet import LiteUNet
from fpgm.nets.unet import Backbone, Decoder, UNet
from fpgm.nets.zoo import build

__all__ = ["Backbone", "Decoder", "LiteUNet", "UNet", "build"]
