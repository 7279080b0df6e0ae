"""``fpgm push``: a trained model to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path


def push(model: Path, name: str, *, public: bool = False, license: str = "other") -> int:
    """Upload a model to the Hugging Face Hub; `fpgm.load_predictor("ORG/NAME")` fetches it.

    Weights, model.json and the card are sent, with the scores of an evaluated run; no image and no checkpoint. Log in
    before with `huggingface-cli login`.

    Args:
        model: run folder or model folder.
        name: ORG/NAME on the Hub.
        public: let everybody see it; if not given, a new model is private.
        license: licence of the weights, as the Hub writes it, e.g. mit; mind those of the training images.
    """
    from fpgm.cli.terminal import console
    from fpgm.serving import hub

    address = hub.push(model, name, public=public, license=license)
    console().print(f"{', '.join(hub.FILES)} sent to {address}", highlight=False, soft_wrap=True)
    return 0
