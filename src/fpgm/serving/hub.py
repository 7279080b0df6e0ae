"""Models on the Hugging Face Hub: fetched by name, and pushed with a card that has the Hub's metadata.

Three files go either way: weights (safetensors), ``model.json`` and the card. None of them holds code.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from fpgm._version import __version__
from fpgm.model import WEIGHTS, load_model
from fpgm.runs.card import CARD, ModelCard, model_folder
from fpgm.runs.model_card import MODEL_CARD
from fpgm.runs.results import read_result

README = "README.md"  # what the Hub calls a card
FILES = (CARD, WEIGHTS, README)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def is_hub_name(path: str | os.PathLike[str]) -> bool:
    """Whether a text is ``org/name`` and can be nothing of this machine: there is no folder called org here."""
    if not isinstance(path, str) or not _NAME.fullmatch(path) or path.casefold().endswith(".onnx"):
        return False
    return not Path(path).exists() and not Path(path).parent.exists()


def fetch(name: str) -> Path:
    """Download the model ``org/name``, unless it is here already, and return its folder."""
    hub = _hub(f"{name} is no folder here, and models of the Hub need huggingface_hub")
    folder = Path(hub.constants.HF_HOME) / "fpgm" / name.replace("/", "--")
    try:
        hub.snapshot_download(name, local_dir=str(folder), allow_patterns=list(FILES))
    except Exception as error:  # no network, no such model, no permission
        if not all((folder / file).is_file() for file in (CARD, WEIGHTS)):
            said = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise ValueError(
                f"there is no folder {name}, and the Hub gives no such model: {said[0]}; `huggingface-cli login` lets "
                "you in where a model is private"
            ) from None
    return folder


def push(model: Path, name: str, *, public: bool = False, license: str = "other") -> str:
    """Upload a model to the Hub and return its address.

    Args:
        model: run folder or model folder; the figures of an evaluated run go into the card.
        name: ``org/name``.
        public: let everybody see it; else a new one is private, and one that is there stays as it is.
        license: licence of the weights, as the Hub writes it.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a model of the Hub is called ORG/NAME, in letters, digits and . _ -, not {name!r}")
    _, card = load_model(model)  # refuses what nobody could load
    api = _hub("fpgm push needs huggingface_hub").HfApi(library_name="fpgm", library_version=__version__)
    with TemporaryDirectory() as place:
        folder = Path(place)
        for file in (CARD, WEIGHTS):
            shutil.copyfile(model_folder(model) / file, folder / file)
        (folder / README).write_text(hub_card(model, card, name, license), encoding="utf-8")
        try:
            address = api.create_repo(name, private=not public, exist_ok=True)
            api.upload_folder(
                repo_id=name, folder_path=str(folder), allow_patterns=list(FILES), commit_message=f"fpgm {__version__}"
            )
        except Exception as error:  # no network, not logged in, not one's own
            said = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise ValueError(f"the Hub does not take {name}: {said[0]}; log in with `huggingface-cli login`") from None
    return str(address)


def hub_card(model: Path, card: ModelCard, name: str, license: str) -> str:
    """Return ``README.md``: the Hub's metadata, how to load the model, and ``MODEL_CARD.md``."""
    metadata: dict[str, Any] = {
        "library_name": "fpgm",
        "license": license,
        "pipeline_tag": "image-segmentation",
        "tags": ["image-segmentation", "medical", "polyp", "semi-supervised", str(card.training.get("method", ""))],
        "metrics": ["dice"],
    }
    if results := _results(model):
        metadata["model-index"] = [{"name": name.partition("/")[2], "results": results}]
    beside = model_folder(model) / MODEL_CARD
    text = beside.read_text(encoding="utf-8") if beside.is_file() else ""
    use = f'```python\nimport fpgm\n\npredictor = fpgm.load_predictor("{name}")\n```\n'
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n\n{use}\n{text}"


def _results(model: Path) -> list[Mapping[str, Any]]:
    """Return the mean Dice on each data set as the Hub writes results; none of a model without an evaluation."""
    try:
        scores = read_result(model).scores
    except (OSError, ValueError):
        return []
    return [
        {
            "task": {"type": "image-segmentation"},
            "dataset": {"name": one.label(dataset), "type": dataset},
            "metrics": [{"type": "dice", "value": round(float(np.mean(one.values["dice"])), 4), "name": "Dice"}],
        }
        for dataset, one in scores.items()
    ]


def _hub(why: str) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # its makers get no message
    try:
        import huggingface_hub
        import huggingface_hub.constants
    except ImportError:
        raise ValueError(f"{why}, which is not installed: pip install 'fpgm[hub]'") from None
    return huggingface_hub
