"""The fields of the JSON that the server sends; the API page explains them from here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Output = Literal["json", "mask", "probability", "overlay"]
Prior = Literal["learned", "generic", "low-pass"]
Reconstruction = Literal["radial", "ratio"]
Share = Annotated[float, Field(ge=0, le=1)]
PNG = "PNG as a data URL"


class Health(BaseModel):
    """Whether the server works, and how busy it is."""

    status: str = Field(description="`ok`, or `no worker answers`, with the code 503")
    version: str = Field(description="of the package")
    taken: int = Field(description="places taken by requests under way")
    places: int = Field(description="places there are; a request beyond is answered with 503")


class About(BaseModel):
    """The model behind the page, and what can be asked of it."""

    version: str = Field(description="of the package")
    note: str = Field(description="what a user must know of this model, or nothing")
    net: str = Field(description="name of the network")
    size: int = Field(description="side in pixels of the square the network sees")
    classes: list[str] = Field(description="of the network, the background first")
    training: dict[str, str] = Field(description="summary of the training")
    statistics: str = Field(description="where those of batch norm come from, or nothing if from the training")
    identity: str = Field(description="hash that changes when the model's numbers do")
    threshold: float = Field(description="the default of `/api/predict`")
    least_share: Share = Field(description="smallest area of a polyp as a share of the picture, as validation chose")
    priors: list[str] = Field(description="what `/api/align` takes, the default first; none if torch is not installed")
    examples: list[str] = Field(description="names for `/api/examples/NAME.png`: drawn phantoms, no patients")
    max_bytes: int = Field(description="of an upload")
    max_pixels: int = Field(description="of a picture")


class Polyp(BaseModel):
    """One connected region of the mask."""

    area: int = Field(description="pixels of the picture")
    confidence: Share = Field(description="mean foreground probability over them")
    box: tuple[int, int, int, int] = Field(description="left, top, width, height in pixels")


class Prediction(BaseModel):
    """What was found in a picture."""

    width: int = Field(description="of the picture, upright, in pixels")
    height: int
    threshold: float = Field(description="least foreground probability of the mask")
    min_area: int = Field(description="least pixels of a polyp; smaller regions are left out")
    area: int = Field(description="pixels of the mask")
    share: Share = Field(description="of the picture that the mask covers")
    confidence: Share | None = Field(description="mean foreground probability over the mask; null if it is empty")
    polyps: list[Polyp] = Field(description="connected regions, corners included, the largest first")
    picture: str | None = Field(None, description="the picture as it was read, JPEG as a data URL; with `pictures`")
    probability: str | None = Field(None, description=f"0 … 255 stand for 0 … 1, {PNG}; with `pictures`")


class Alignment(BaseModel):
    """A picture as the model sees it, before and after its spectrum was aligned."""

    size: int = Field(description="side of the pictures in pixels")
    original: str = Field(description=f"the picture as it was prepared, {PNG}")
    aligned: str = Field(description=f"the aligned view, {PNG}")
    difference: str = Field(description=f"aligned minus original, mean over channels, blue to red, {PNG}")
    reach: float = Field(description="difference, of values in [0, 1], that the full red stands for")
    change: float = Field(description="mean absolute difference of the values in [0, 1]")
    profile: list[float] = Field(description="shape of the radial profile: share of each radius r = 0 … size/2 - 1")
    aligned_profile: list[float] = Field(description="the same of the aligned view")
    prior_profile: list[float] | None = Field(description="the same of the prior; null for the low-pass filter")


class ErrorMessage(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="one sentence for a person")
