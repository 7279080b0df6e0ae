"""The frequency prior of your own images: learn it, keep it as a file, compare it, use it.

    python examples/own_prior.py --images frames --masks masks --out prior.json
    python examples/own_prior.py                 draws phantoms first, into ./own_prior

A mask belongs to the image of the same name. The file can be read by a person and given to a training with
`fpgm train … --set method.prior_file=prior.json`; `fpgm prior show` draws it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image

from fpgm.data.pictures import prepare_image, prepare_mask, read_mask, read_picture
from fpgm.data.synthetic import phantom
from fpgm.spectrum import FrequencyPrior, SpectralAlignment, generic_profile, likeness


def learn(images: Path, masks: Path, size: int = 128) -> FrequencyPrior:
    """Learn the prior of all images that have a mask of the same name; with `debias` all weigh the same at first."""
    named = {path.stem: path for path in masks.iterdir()}
    prior = FrequencyPrior(momentum=0.999, debias=True)
    for path in sorted(images.iterdir()):
        if path.stem in named:
            picture = read_picture(path.read_bytes())
            mask = read_mask(read_picture(named[path.stem].read_bytes()))
            image = torch.from_numpy(prepare_image(picture, size)).permute(2, 0, 1)[None] / 255
            prior.update(image, torch.from_numpy(prepare_mask(mask, size))[None])
    return prior


def draw_phantoms(folder: Path, count: int = 8) -> tuple[Path, Path]:
    """Draw something to learn from."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for index in range(count):
        sample = phantom("phantom-a", index)
        Image.fromarray(sample.image).save(folder / "images" / f"{index}.png")
        Image.fromarray(sample.mask * 255).save(folder / "masks" / f"{index}.png")
    return folder / "images", folder / "masks"


def main(arguments: list[str] | None = None) -> None:
    """Learn, save, compare, align one image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--masks", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("own_prior") / "prior.json")
    options = parser.parse_args(arguments)
    if (options.images is None) != (options.masks is None):
        parser.error("give --images and --masks together, or neither")
    images, masks = (options.images, options.masks) if options.images else draw_phantoms(options.out.parent)
    learn(images, masks, options.size).save(options.out)

    prior = FrequencyPrior.load(options.out)  # in another program, perhaps
    correlation, distance = likeness(prior.profile, generic_profile(len(prior.profile)))
    print(f"{options.out}: {int(prior.samples)} images, {int(prior.skipped)} without a visible edge left out")
    print(f"against the generic prior: correlation {correlation:.3f}, distance {distance:.2f}")

    picture = read_picture(min(images.iterdir()).read_bytes())
    image = torch.from_numpy(prepare_image(picture, options.size)).permute(2, 0, 1)[None] / 255
    view = SpectralAlignment(prior, gamma=0.05, clamp=True)(image)
    shown = (torch.cat((image, view), 3)[0].permute(1, 2, 0) * 255).round().byte().numpy()
    Image.fromarray(shown).save(options.out.with_suffix(".png"))
    print(f"{options.out.with_suffix('.png')}: an image, and beside it its aligned view")


if __name__ == "__main__":
    main()
