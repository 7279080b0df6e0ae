"""Results as text and as HTML, of a table written by hand."""

from __future__ import annotations

from pathlib import Path

from fpgm.notebook import Shown, Table, Trained


class Fruit(Shown):
    def table(self) -> Table:
        return Table("a & b", ("name", "n"), [("<plum>", "12"), ("fig", "3")], ["x < y"])


def test_text_has_straight_columns() -> None:
    assert repr(Fruit()) == "a & b\nname    n\n<plum>  12\nfig     3\nx < y"


def test_html_is_escaped() -> None:
    assert Fruit()._repr_html_() == (
        "<table><caption>a &amp; b</caption><thead><tr><th>name</th><th>n</th></tr></thead>"
        "<tbody><tr><td>&lt;plum&gt;</td><td>12</td></tr><tr><td>fig</td><td>3</td></tr></tbody></table>"
        "<p>x &lt; y</p>"
    )


def test_a_run_without_validation_has_no_dice() -> None:
    assert "-" in repr(Trained(Path("run"), "fpgm", "mini", 10, None, 0)).splitlines()[-1]
    assert "0.5000 at step 8" in repr(Trained(Path("run"), "fpgm", "mini", 10, 0.5, 8))
