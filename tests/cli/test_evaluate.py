"""`fpgm evaluate`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fpgm.cli import main
from fpgm.runs.results import read_result
from fpgm.runs.summary import summarise
from tests.runs.making import make_run


@pytest.fixture
def run(tmp_path: Path, phantom_store: Path) -> Path:
    return make_run(tmp_path / "run", phantom_store)


def test_the_tables_show_both_rules(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "phantom-f", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    scores = read_result(run).scores["phantom-f"].values
    for column, scale in (("dice", 100), ("hd95", 1), ("released_asd", 1)):
        summary = summarise(scores[column])
        assert f"{scale * summary.mean:.1f} ± {scale * summary.sd:.1f}" in shown
        assert f"[{scale * summary.low:.1f}, {scale * summary.high:.1f}]" in shown
    assert "penalised" in shown and "released code" in shown and "phantom-b" not in shown
    assert shown.count("(unseen)") == 2 and "missed" in shown and "alarms" in shown
    assert "supervised, preset mini, 40 iterations, 16 labelled, seed 0" in " ".join(shown.split())


def test_json_is_for_programs(run: Path, phantom_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(run), "--data", str(phantom_store), "--workers", "1", "--json"]
    assert main(command) == 0
    first = capsys.readouterr().out
    record = json.loads(first, parse_constant=pytest.fail)  # NaN is no JSON
    unseen = {name for name, entry in record["datasets"].items() if entry["unseen"]}
    assert len(record["datasets"]) == 6 and unseen == {"phantom-e", "phantom-f"}
    entry = record["datasets"]["phantom-e"]
    assert entry["images"] == entry["dice"]["count"] == 20 and entry["missed"] == entry["false_alarms"] == 0
    assert entry["dice"]["low"] < entry["dice"]["mean"] < entry["dice"]["high"]
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert main([*command, "--datasets", "Phantom E"]) == 0  # alone of all that is there
    assert json.loads(capsys.readouterr().out)["datasets"] == {"phantom-e": entry}


def test_a_file_edited_by_hand_is_made_again(run: Path) -> None:
    path = run / "evaluation" / "phantom-a.csv"
    assert main(["evaluate", str(run), "--workers", "1"]) == 0
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"0.", b"0.9", 1))
    with pytest.raises(ValueError, match="line 2"):
        read_result(run)
    assert main(["evaluate", str(run), "--workers", "1"]) == 0
    assert path.read_bytes() == whole and read_result(run)


def test_the_figures_go_into_the_model_card(run: Path) -> None:
    assert main(["evaluate", str(run), "--datasets", "phantom-a", "--workers", "1"]) == 0
    dice = summarise(read_result(run).scores["phantom-a"].values["dice"]).mean
    assert f"| phantom-a | 4 | {100 * dice:.1f} [" in (run / "model" / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--datasets", "phantom-z"], "no test or unseen images of phantom-z, only of phantom-a, phantom-b"),
        (["--data", "nowhere"], "there is no store nowhere"),
        (["--device", "quantum"], "--device quantum cannot be used here"),
        (["--workers", "0"], "0 workers; at least 1 is needed"),
    ],
)
def test_bad_options_are_a_sentence(
    run: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and said.count("\n") == 1 and message in said
