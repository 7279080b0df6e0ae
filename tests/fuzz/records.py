"""Records of run folders, good and altered."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from fpgm.config import resolve
from fpgm.runs.card import ModelCard
from tests.fuzz.making import WORDS, altered, spoiled
from tests.serving.making import CHANNELS, SIZE

CARD_RECORD = ModelCard(net="unet", arguments={"channels": CHANNELS}, size=SIZE, training={}).model_dump(mode="json")


def config() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        resolve("mini", "fpgm", {"store": Path("store"), "split": "paper-0"}).save(path)
        record: dict[str, Any] = yaml.safe_load(path.read_text())
    return record


CONFIG = config()
YAML = st.one_of(
    altered(CONFIG).map(lambda record: yaml.safe_dump(record, allow_unicode=True).encode("utf-8", "surrogatepass")),
    spoiled([yaml.safe_dump(CONFIG).encode()]),
    WORDS.map(lambda word: f"method: {word}".encode("utf-8", "surrogatepass")),
)
