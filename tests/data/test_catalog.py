"""The catalogue against Table 1, the published sequence tables and the phantom."""

from __future__ import annotations

import pytest

from fpgm.data import catalog
from fpgm.data.catalog import CATALOG, Counts, find, hospital_of, sequence
from fpgm.data.fingerprint import reference
from fpgm.data.synthetic import DOMAINS

# Table 1 of the paper, line by line.
TABLE_1 = {
    "Kvasir": (1000, 700, 100, 200),
    "CVC-ClinicDB": (612, 400, 62, 150),
    "CVC-ColonDB": (380, 230, 50, 100),
    "ETIS": (196, 100, 32, 64),
    "CVC-300": (60, 0, 0, 60),
    "BKAI": (1000, 0, 0, 1000),
}
REAL = [entry for entry in CATALOG.values() if entry.counts]


def test_counts_are_those_of_table_1() -> None:
    assert {entry.short: entry.counts for entry in REAL} == {name: Counts(*row) for name, row in TABLE_1.items()}


def test_parts_pool_to_the_papers_1430_and_244() -> None:
    seen = [entry.counts for entry in REAL if entry.role == "in-domain" and entry.counts]
    assert sum(counts.train for counts in seen) == 1430
    assert sum(counts.validation for counts in seen) == 244
    assert all(counts.total == counts.train + counts.validation + counts.test for counts in seen)


def test_unseen_sets_are_test_data_alone() -> None:
    unseen = [entry for entry in REAL if entry.role == "unseen"]
    assert [entry.key for entry in unseen] == ["CVC-300", "BKAI-IGH"]
    assert all(entry.counts and entry.counts.test == entry.counts.total for entry in unseen)


def test_keys_and_counts_agree_with_the_reference_fingerprints() -> None:
    rows = [row.dataset for row in reference()]
    assert {entry.key: entry.counts.total for entry in REAL if entry.counts} == {n: rows.count(n) for n in set(rows)}


def test_phantoms_are_entries_of_the_same_roles() -> None:
    phantoms = {name: entry.role for name, entry in CATALOG.items() if entry.counts is None}
    assert phantoms == {name: "unseen" if look.unseen else "in-domain" for name, look in DOMAINS.items()}


def test_convention_hospitals_of_the_public_data_sets() -> None:
    assert {entry.key: entry.hospital for entry in REAL} == {
        "Kvasir-SEG": "Kvasir",
        "CVC-ClinicDB": "CVC",
        "CVC-ColonDB": "CVC",
        "ETIS-LaribPolypDB": "ETIS",
        "CVC-300": "CVC",
        "BKAI-IGH": "BKAI",
    }
    assert all(hospital_of(name) == name for name in (*DOMAINS, "mine"))


# First and last frames of runs, and their neighbours, from the published tables.
@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("CVC-ClinicDB/1", "CVC-ClinicDB sequence 1"),
        ("CVC-ClinicDB/25", "CVC-ClinicDB sequence 1"),
        ("CVC-ClinicDB/26", "CVC-ClinicDB sequence 2"),
        ("CVC-ClinicDB/205", "CVC-ClinicDB sequence 10"),
        ("CVC-ClinicDB/612", "CVC-ClinicDB sequence 29"),
        ("CVC-ClinicDB/613", None),
        ("CVC-ClinicDB/0", None),
        ("CVC-ColonDB/77", "CVC-ColonDB sequence 5"),
        ("CVC-ColonDB/301", "CVC-ColonDB sequence 4"),
        ("CVC-ColonDB/360", "CVC-ColonDB sequence 12"),
        ("CVC-ColonDB/380", "CVC-ColonDB sequence 13"),
        ("CVC-300/149", "CVC-ColonDB sequence 7"),
        ("CVC-300/208", "CVC-ColonDB sequence 10"),
        ("ETIS-LaribPolypDB/1", None),
        ("Kvasir-SEG/cju0qkwl35piu0993l0dewei2", None),
        ("mine/1", None),
    ],
)
def test_sequence(image: str, expected: str | None) -> None:
    assert sequence(image) == expected


def test_cvc_300_lies_in_sequences_7_9_and_10() -> None:
    names = {sequence(f"CVC-300/{frame}") for frame in range(149, 209)}
    assert names == {f"CVC-ColonDB sequence {number}" for number in (7, 9, 10)}


def test_there_are_29_and_15_sequences_without_gaps() -> None:
    for key, total, number in (("CVC-ClinicDB", 612, 29), ("CVC-ColonDB", 380, 15)):
        names = [sequence(f"{key}/{frame}") for frame in range(1, total + 1)]
        assert None not in names
        assert len(set(names)) == number


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("kvasir", "Kvasir-SEG"),
        ("KVASIR_SEG", "Kvasir-SEG"),
        ("cvc clinicdb", "CVC-ClinicDB"),
        ("ETIS-Larib", "ETIS-LaribPolypDB"),
        ("bkai-igh-neopolyp", "BKAI-IGH"),
        ("CVC300", "CVC-300"),
    ],
)
def test_find_knows_aliases(name: str, key: str) -> None:
    found = find(name)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("name", ["", "mine", "Kvasir-Sessile"])
def test_find_does_not_guess(name: str) -> None:
    assert find(name) is None


def test_no_two_entries_share_a_name_or_a_layout() -> None:
    names = [catalog._plain(name) for entry in CATALOG.values() for name in {entry.key, entry.short, *entry.aliases}]
    assert len(catalog._BY_NAME) == len(set(names))
    owners = {catalog._plain(n): e.key for e in CATALOG.values() for n in (e.key, e.short, *e.aliases)}
    assert all(catalog._BY_NAME[name].key == key for name, key in owners.items())
    natives = [entry.native for entry in CATALOG.values() if entry.native]
    assert len(natives) == len(set(natives))


@pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda entry: entry.key)
def test_every_entry_says_how_to_get_it_and_what_is_allowed(entry: catalog.Dataset) -> None:
    assert entry.licence
    assert entry.citation
    assert entry.source
    assert entry.layout
