"""The data sets of the paper (Table 1) and the phantom's domains: hospitals, counts, layouts, licences, sequences.

To add a data set, add one ``Dataset`` to ``_ENTRIES``; every command knows it from then on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Role = Literal["in-domain", "unseen"]


class Counts(NamedTuple):
    """Image/mask pairs in all and per part, as the paper divides them."""

    total: int
    train: int
    validation: int
    test: int


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What is known about one data set before any file of it is opened."""

    key: str  # the name of its folder in a store
    short: str  # the paper's name
    hospital: str  # where its images are from; data sets of one hospital share the name
    role: Role
    counts: Counts | None  # None: as many as one likes
    layout: str  # how its authors distribute it
    licence: str
    citation: str
    source: str  # where a user gets it
    aliases: tuple[str, ...] = ()  # other names of its folder; case and punctuation do not matter
    native: str = ""  # the layout of `layouts.py` that only this data set uses, whatever its folder is called
    train_stems: str = ""  # pattern of its file stems in the mixed TrainDataset folder
    videos: str = ""  # the data set whose sequences these are, if they are not its own
    sequences: tuple[tuple[int, int, int], ...] = ()  # first frame, last frame, sequence

    def sequence(self, id: str) -> str | None:
        """Name the video an image comes from, such as ``CVC-ColonDB sequence 7``; None where it is not known.

        Data sets that share a video give it the same name.
        """
        if not re.fullmatch("[0-9]+", id):
            return None
        for first, last, number in self.sequences:
            if first <= int(id) <= last:
                return f"{self.videos or self.key} sequence {number}"
        return None


def _runs(text: str) -> tuple[tuple[int, int, int], ...]:
    """Read ``"38:1 60:2"``, last frame and sequence of each run, as ((1, 38, 1), (39, 60, 2))."""
    runs: list[tuple[int, int, int]] = []
    for entry in text.split():
        last, number = map(int, entry.split(":"))
        runs.append((runs[-1][1] + 1 if runs else 1, last, number))
    return tuple(runs)


_CLINIC_RUNS = _runs(
    "25:1 50:2 67:3 78:4 103:5 126:6 151:7 177:8 199:9 205:10 227:11 252:12 277:13 297:14 317:15 342:16 363:17 383:18 "
    "408:19 428:20 447:21 466:22 478:23 503:24 528:25 546:26 571:27 591:28 612:29"
)
_COLON_RUNS = _runs("38:1 60:2 76:3 97:5 148:6 155:7 203:9 208:10 263:11 273:14 300:15 320:4 340:8 360:12 380:13")
_COLON_CITATION = (
    "Bernal, Sánchez, Vilariño: Towards automatic polyp detection with a polyp appearance model. "
    "Pattern Recognition 45(9), 2012"
)

_ENTRIES = (
    Dataset(
        key="Kvasir-SEG",
        short="Kvasir",
        hospital="Kvasir",
        role="in-domain",
        counts=Counts(1000, 700, 100, 200),
        layout="images/*.jpg with masks/*.jpg of equal stems; the masks hold JPEG ringing",
        licence="research and education; other use needs written permission; cite the paper",
        citation="Jha et al.: Kvasir-SEG: a segmented polyp dataset. MultiMedia Modeling, 2020",
        source="https://datasets.simula.no/kvasir-seg/",
        aliases=("Kvasir",),
        train_stems="(?![0-9]+$).*",
    ),
    Dataset(
        key="CVC-ClinicDB",
        short="CVC-ClinicDB",
        hospital="CVC",
        role="in-domain",
        counts=Counts(612, 400, 62, 150),
        layout="Original/N.tif with Ground Truth/N.tif; 29 video sequences",
        licence="research and education only; cite the paper",
        citation=(
            "Bernal et al.: WM-DOVA maps for accurate polyp highlighting in colonoscopy. "
            "Computerized Medical Imaging and Graphics 43, 2015"
        ),
        source="https://polyp.grand-challenge.org/CVCClinicDB/",
        aliases=("ClinicDB", "CVC-612"),
        native="Original/Ground Truth",
        train_stems="[0-9]+",
        sequences=_CLINIC_RUNS,
    ),
    Dataset(
        key="CVC-ColonDB",
        short="CVC-ColonDB",
        hospital="CVC",
        role="in-domain",
        counts=Counts(380, 230, 50, 100),
        layout="N.tiff with pN.tiff in one folder; 15 video sequences",
        licence="research; cite the paper",
        citation=_COLON_CITATION,
        source="http://mv.cvc.uab.es/projects/colon-qa/cvccolondb, or the bundles of the polyp benchmarks",
        aliases=("ColonDB",),
        native="N with pN",
        sequences=_COLON_RUNS,
    ),
    Dataset(
        key="ETIS-LaribPolypDB",
        short="ETIS",
        hospital="ETIS",
        role="in-domain",
        counts=Counts(196, 100, 32, 64),
        layout="N.tif with Ground Truth/pN.tif",
        licence="research; cite the paper",
        citation=(
            "Silva et al.: Toward embedded detection of polyps in WCE images for early diagnosis of colorectal cancer. "
            "International Journal of Computer Assisted Radiology and Surgery 9(2), 2014"
        ),
        source="https://polyp.grand-challenge.org/EtisLarib/",
        aliases=("ETIS", "ETIS-Larib", "ETIS-LaribPolypDB-png"),
        native="N with Ground Truth/pN",
    ),
    Dataset(
        key="CVC-300",
        short="CVC-300",
        hospital="CVC",
        role="unseen",
        counts=Counts(60, 0, 0, 60),
        layout="images/N.png with masks/N.png; frames 149 to 208 of CVC-ColonDB",
        licence="research; cite the paper",
        citation=_COLON_CITATION,
        source="in the TestDataset bundle of the polyp benchmarks",
        aliases=("CVC300",),
        videos="CVC-ColonDB",
        sequences=_COLON_RUNS,
    ),
    Dataset(
        key="BKAI-IGH",
        short="BKAI",
        hospital="BKAI",
        role="unseen",
        counts=Counts(1000, 0, 0, 1000),
        layout="train/*.jpeg with train_gt/*.jpeg: red neoplastic, green non-neoplastic, black background",
        licence="research; terms of the BKAI-IGH NeoPolyp competition; cite the paper",
        citation="Lan et al.: NeoUNet: towards accurate colon polyp segmentation and neoplasm detection. ISVC, 2021",
        source="https://www.kaggle.com/competitions/bkai-igh-neopolyp",
        aliases=("BKAI", "BKAI-IGH-NeoPolyp", "NeoPolyp", "BKAI-IGH-NeoPolyp-Small"),
        native="train/train_gt",
    ),
    *(
        Dataset(
            key=f"phantom-{letter}",
            short=f"phantom {letter}",
            hospital=f"phantom-{letter}",
            role="unseen" if letter in "ef" else "in-domain",
            counts=None,
            layout="drawn, not read",
            licence="that of this package",
            citation="none: a drawing, never a result on real data",
            source="fpgm data synth --out STORE",
        )
        for letter in "abcdef"
    ),
)

CATALOG: dict[str, Dataset] = {entry.key: entry for entry in _ENTRIES}


def find(name: str) -> Dataset | None:
    """Return the data set of that name or alias, whatever its case and punctuation; None if it is not known."""
    return _BY_NAME.get(_plain(name))


def hospital_of(dataset: str) -> str:
    """Return the hospital that a data set is from; an unknown data set is a hospital of its own."""
    return CATALOG[dataset].hospital if dataset in CATALOG else dataset


def same_name(first: str, second: str) -> bool:
    """Whether two names differ in case and punctuation at most."""
    return _plain(first) == _plain(second)


def sequence(global_id: str) -> str | None:
    """Name the video of an image given as ``<data set>/<id>``; None where it is not known."""
    name, _, id = global_id.partition("/")
    return CATALOG[name].sequence(id) if name in CATALOG else None


def _plain(name: str) -> str:
    return re.sub("[^0-9a-z]", "", name.casefold())


_BY_NAME = {_plain(name): entry for entry in _ENTRIES for name in (entry.key, entry.short, *entry.aliases)}
