"""The core: frequency prior and spectral shape alignment. Needs only torch.

The modules follow the paper's order: ``edges`` (Eq. 1, 2), ``radial`` (Eq. 3, 4, 11), ``align`` (Eq. 6 to 10, 12)
and ``priors`` (Eq. 5); ``exchange`` is ours. Letters used in shapes: B images, C channels, H x W pixels,
R = min(H, W) // 2 radii.
"""

from fpgm.spectrum.align import SpectralAlignment, align
from fpgm.spectrum.edges import edge_mask, edge_region, gradient, to_grey
from fpgm.spectrum.exchange import exchange
from fpgm.spectrum.priors import FrequencyPrior, edge_profiles, generic_profile, low_pass, sum_over_ranks
from fpgm.spectrum.radial import amplitude, broadcast, likeness, radial_profile, radius_grid, resample

__all__ = [
    "FrequencyPrior",
    "SpectralAlignment",
    "align",
    "amplitude",
    "broadcast",
    "edge_mask",
    "edge_profiles",
    "edge_region",
    "exchange",
    "generic_profile",
    "gradient",
    "likeness",
    "low_pass",
    "radial_profile",
    "radius_grid",
    "resample",
    "sum_over_ranks",
    "to_grey",
]
