"""A model's batch-norm statistics in words, for the terminal, the model card and the web page."""

from __future__ import annotations

from fpgm.runs.card import Site, Statistics

TOLERANCE = 0.1  # standard deviations from the statistics of all frames, up to which fewer frames are enough
LARGE_SHIFT = 0.25  # standard deviations; sites that were in the training lie at about 0.1, unseen ones at 0.3
LARGE_CHANGE = 0.05  # of the pixels


def summarise_statistics(statistics: Statistics) -> str:
    """Say in a few words where the statistics come from; nothing where they are those of the training."""
    site = statistics.site
    sources = {
        "training": "",
        "clean": "statistics of clean training images",
        "site": f"statistics of {site.frames} frames of {site.folder}" if site else "",
    }
    own = f"{statistics.own:.0%} of them each image's own" if statistics.own else ""
    source = sources[statistics.source] or ("statistics of the training" if own else "")
    return ", ".join(part for part in (source, own) if part)


def describe_site(site: Site) -> dict[str, str]:
    """Say what was measured, by name."""
    facts = {
        "Frames": describe_frames(site),
        "Change": (
            f"the frames lie {site.shift:.2f} standard deviations from the old statistics; "
            f"{site.changed:.1%} of their pixels change class"
        ),
    }
    if site.dice_before is not None and site.dice_after is not None:
        facts["Dice"] = (
            f"{100 * site.dice_before:.1f} before, {100 * site.dice_after:.1f} after, on the {site.masks} frames with "
            "masks; the masks served for these figures alone"
        )
    return facts


def describe_frames(site: Site) -> str:
    """Say how many frames there are and whether they are enough."""
    frames = f"{site.frames} frame{'s' if site.frames > 1 else ''}"
    if site.half_difference is None:
        return f"{frames}, too few to tell how many are enough"
    halves = f"the statistics of their first and second half differ by {site.half_difference:.2f} standard deviations"
    verdict = "too few to tell how many are enough" if site.enough is None else f"{site.enough} or more are enough"
    return f"{frames}; {halves}; {verdict}"


def warn_of_site(site: Site) -> list[str]:
    """Say what a user should know before using the model."""
    warnings = []
    if site.enough is None:
        warnings.append(f"{site.frames} frames may be too few for reliable statistics: give more, 16 often do")
    large = []
    if site.shift > LARGE_SHIFT:
        large.append(f"the frames lie more than {LARGE_SHIFT:g} standard deviations from the old statistics")
    if site.changed > LARGE_CHANGE:
        large.append(f"more than {LARGE_CHANGE:.0%} of their pixels change class")
    if large:
        warnings.append(f"the change is large: {' and '.join(large)}; compare masks of both models before you use it")
    if site.dice_before is not None and site.dice_after is not None and site.dice_after < site.dice_before:
        warnings.append("the Dice has fallen: the model as it was is the better one on these frames")
    return warnings
