"""Procedural colonoscopy phantom in six domains: exact masks, no files.

A picture is a pure function of (domain, seed, index). S is its side in pixels; scene coordinates x and y run
from -1 to 1 for every S, and random numbers are drawn on grids of fixed size, so the scene is the same at every S.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, replace
from math import cos, pi, sin
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

Plane = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]
Variety = Literal["plain", "wide"]
MIN_SIZE, MAX_SIZE = 48, 512
_DETAIL = 128  # side of the finest grid


@dataclass(frozen=True, kw_only=True)
class Domain:
    """How one imaginary hospital sees the colon; pairs are (lowest, highest)."""

    unseen: bool = False
    mucosa: tuple[float, float, float]  # reflectance in R, G, B
    exposure: tuple[float, float]
    falloff: float  # 0: even light, 1: the far wall is black
    aperture: Literal["octagon", "circle", "full"]
    extent: float = 1.02  # half width of the aperture; beyond 1 it leaves the frame
    overlay: Literal["none", "insert", "caption"] = "none"  # text, and often a box at the lower left
    radius: tuple[float, float]  # of a polyp; 1 is half the frame
    contrast: tuple[float, float]  # of a polyp's colour and relief
    blur: float  # point spread in thousandths of S
    sharpen: float  # unsharp masking; 1 is 100 %
    noise: float  # grain in grey levels
    quality: int  # of the JPEG


# fmt: off
DOMAINS: dict[str, Domain] = {
    "phantom-a": Domain(mucosa=(0.92, 0.38, 0.27), exposure=(1.3, 2.3), falloff=0.85, aperture="octagon",
        overlay="insert", radius=(0.17, 0.50), contrast=(0.6, 1.0), blur=3, sharpen=0.7, noise=2, quality=88),
    "phantom-b": Domain(mucosa=(0.88, 0.45, 0.22), exposure=(1.1, 2.3), falloff=0.98, aperture="octagon",
        extent=0.87, radius=(0.14, 0.38), contrast=(0.5, 0.9), blur=4, sharpen=0.3, noise=3, quality=80),
    "phantom-c": Domain(mucosa=(0.82, 0.46, 0.30), exposure=(1.0, 2.2), falloff=0.92, aperture="octagon",
        extent=0.95, radius=(0.12, 0.40), contrast=(0.4, 0.8), blur=8, sharpen=0.0, noise=1, quality=90),
    "phantom-d": Domain(mucosa=(0.88, 0.41, 0.36), exposure=(1.7, 2.7), falloff=0.85, aperture="full",
        radius=(0.12, 0.42), contrast=(0.5, 0.9), blur=2, sharpen=1.1, noise=3, quality=60),
    "phantom-e": Domain(mucosa=(0.84, 0.50, 0.46), exposure=(1.5, 2.6), falloff=0.85, aperture="circle",
        radius=(0.09, 0.28), contrast=(0.4, 0.8), blur=2, sharpen=0.9, noise=4, quality=85, unseen=True),
    "phantom-f": Domain(mucosa=(0.70, 0.48, 0.29), exposure=(1.3, 2.4), falloff=0.95, aperture="full",
        overlay="caption", radius=(0.10, 0.34), contrast=(0.4, 0.8), blur=6, sharpen=1.6, noise=5, quality=40,
        unseen=True),
}
# fmt: on
_BOXES = {"none": (-1.0, 1.0), "insert": (-0.38, 0.38), "caption": (-0.54, 0.6)}  # right and upper edge
_ABSORBED = np.array([[0.25, 0.6, 0.6], [0.1, 0.05, 0.6], [0.15, 1.0, 1.0]], dtype=np.float32)
_BLOOD, _MUCUS, _POLYP = _ABSORBED[..., None, None]  # share of R, G, B, each (3, 1, 1)


class Sample(NamedTuple):
    """One phantom: image (S, S, 3) uint8; mask (S, S) uint8, 1 where a polyp is seen."""

    image: Picture
    mask: Picture


class _Scene:
    """A picture being painted: positions of its parts, its random generator, and the colours so far."""

    def __init__(self, rng: np.random.Generator, look: Domain, size: int, wide: bool) -> None:
        axis = ((np.arange(size) + 0.5) * (2 / size) - 1).astype(np.float32)
        self.rng, self.look, self.size, self.x, self.y = rng, look, size, axis[None, :], axis[:, None]
        self.wide = wide
        self.albedo = np.zeros((3, size, size), np.float32)
        self.shade, self.glint = np.zeros((2, size, size), np.float32)
        u = self.uniform = rng.uniform
        away, angle = u(0.1, 1.3), u(0, 2 * pi)
        self.lumen = (away * cos(angle), away * sin(angle), u(0.12, 0.4))
        # a fold before the lens, opposite the lumen: direction, offset (3: out of sight), bend, phase
        self.front = (angle + pi + u(-1, 1), u(0.45, 0.8) if u(0, 1) < 0.35 else 3.0, u(-0.1, 0.3), u(0, 2 * pi))
        self.box = _BOXES[look.overlay if u(0, 1) < 0.6 else "none"]

    def field(self, rows: int, columns: int = 0) -> Plane:
        """Smooth noise of about unit scale from a grid of rows x columns (0: square), (S, S)."""
        return self.fit(Image.fromarray(self.rng.standard_normal((rows, columns or rows), dtype=np.float32)))

    def fit(self, drawing: Image.Image) -> Plane:
        """Resize a drawing to S x S."""
        return np.asarray(drawing.resize((self.size, self.size), Image.Resampling.BICUBIC), dtype=np.float32)

    def cover(self, alpha: Plane, albedo: Plane, shade: Plane, glint: Plane | float) -> None:
        """Paint a body of opacity ``alpha`` (S, S) over the scene."""
        self.albedo += alpha * (albedo - self.albedo)
        self.shade += alpha * (shade - self.shade)
        self.glint += alpha * (glint - self.glint)

    def aperture(self, x: Plane, y: Plane) -> Plane:
        """Distance inwards from the edge of the aperture."""
        ax, ay = np.abs(x), np.abs(y)
        square = np.maximum(ax, ay)
        reach = {"full": square, "octagon": np.maximum(square, 0.69 * (ax + ay)), "circle": np.hypot(x, y)}
        return np.subtract(self.look.extent, reach[self.look.aperture])

    def behind(self, x: Plane, y: Plane) -> Plane:
        """Distance into the fold before the lens, negative beside it."""
        angle, offset, bend, phase = self.front
        across, along = x * cos(angle) + y * sin(angle), y * cos(angle) - x * sin(angle)
        return np.add(across - offset - bend * along**2, 0.05 * np.sin(3.5 * along + phase))

    def visible(self, x: Plane, y: Plane) -> Plane:
        """Distance from all that hides the wall, negative where it is hidden."""
        beside = np.maximum(x - self.box[0], self.box[1] - y)
        return np.minimum(np.minimum(self.aperture(x, y), -self.behind(x, y)), beside)

    def radius(self) -> float:
        """Draw the radius of a polyp; in a wide scene small ones are as common as large ones."""
        low, high = self.look.radius
        return float(np.exp(self.uniform(np.log(low), np.log(1.4 * high)))) if self.wide else self.uniform(low, high)

    def polyps(self) -> list[tuple[float, float, float]]:
        """Visible centres, and radii; if there is space, away from the lumen and from each other."""
        cell, jitter = self.rng.permutation(64), self.rng.random((2, 64))
        x, y = ((np.stack([cell % 8, cell // 8]) + jitter) * 0.22 - 0.88).astype(np.float32)
        clear, taken = self.visible(x, y), [self.lumen]
        for _ in range(self.rng.choice([1, 2, 3], p=[0.8, 0.15, 0.05])):
            radius = self.radius()
            room = np.min([clear, *(np.hypot(x - tx, y - ty) - tr for tx, ty, tr in taken)], axis=0)
            best = np.argmax(np.minimum(room, 0.5 * radius))  # the first with room enough, or else the widest
            taken.append((float(x[best]), float(y[best]), radius))
        return taken[1:]


def _smooth(low: float, high: float, value: Plane) -> Plane:
    """Smoothstep from 0 at ``low`` to 1 at ``high``."""
    t = np.clip((value - low) * (1 / (high - low)), 0, 1)
    return t * t * (3 - 2 * t)


def _lumen(scene: _Scene) -> tuple[Plane, Plane, Plane]:
    """Log distance from the lumen's rim (negative inside), angle about it, and light of the lamp, all (S, S)."""
    x = scene.x - scene.lumen[0] + 0.06 * scene.field(5)
    y = scene.y - scene.lumen[1] + 0.06 * scene.field(5)
    turn, squash = scene.uniform(0, pi), scene.uniform(0.65, 1.0)
    u, v = x * cos(turn) + y * sin(turn), (y * cos(turn) - x * sin(turn)) / squash
    angle = np.arctan2(v, u)
    # three muscle bands make the colon's cross-section a rounded triangle
    triangle = 1 + scene.uniform(0.04, 0.14) * np.cos(3 * angle)
    depth = np.log(np.sqrt(u * u + v * v) * triangle / scene.lumen[2] + 0.02)
    fading = 1.2 - scene.look.falloff * (1 - _smooth(-0.3, 2.5, depth))
    uneven = 1 + 0.28 * scene.field(3) + 0.05 * scene.field(10)
    return depth, angle, fading * uneven * (0.08 + 0.92 * _smooth(-1.0, 0.6, depth))


def _folds(scene: _Scene, depth: Plane, angle: Plane) -> Plane:
    """Shading by the haustral folds, (S, S): a bright crest, then a sharp fall into the shadow behind it."""
    sway = 0.25 * np.cos(angle + scene.uniform(0, 2 * pi)) + 0.15 * scene.field(4)
    turn = sway - depth * scene.uniform(1.2, 2.6)
    rise = turn - np.floor(turn)
    edge = _smooth(0, 0.08, 1 - rise)
    relief = edge * (0.3 * rise**3 - 0.6 * np.exp(rise * -4)) - 0.6 * (1 - edge)
    return 1 + relief * np.clip(0.45 + 0.5 * scene.field(4), 0.03, 1) * scene.uniform(0.5, 1.0)


def _vessels(scene: _Scene) -> Plane:
    """Branching vessels, (S, S) in 0..1."""
    pen = ImageDraw.Draw(drawing := Image.new("L", (2 * _DETAIL, 2 * _DETAIL)))
    starts, headings = scene.uniform(0, 2 * _DETAIL, (6, 1, 2)), scene.uniform(0, 2 * pi, (6, 1))
    for width in (3, 2, 1):
        course = headings + np.cumsum(scene.rng.normal(0, 0.22, (len(headings), 16)), axis=1)
        path = starts + (3 + width) * np.cumsum(np.stack([np.cos(course), np.sin(course)], axis=-1), axis=1)
        for line in path.reshape(len(path), -1).tolist():
            pen.line(line, fill=60 + 60 * width, width=width)
        starts = path[:, 3:12:4].reshape(-1, 1, 2)
        headings = (course[:, 3:12:4] + scene.rng.choice([-0.8, 0.8], (len(course), 3))).reshape(-1, 1)
    return scene.fit(drawing) * np.clip(0.5 + 0.5 * scene.field(4), 0, 1) / 255


def _mucosa(scene: _Scene) -> Plane:
    """Blotchy reflectance, (3, S, S), with vessels and here and there a stain of mucus."""
    blood = 0.10 * scene.field(5) + 0.06 * scene.field(16) + 0.04 * scene.field(64)
    blood += scene.uniform(0.4, 1.0) * _vessels(scene)
    mucus = _smooth(1.2, 2.2, scene.field(7) + 0.3 * scene.field(20)) * scene.uniform(0, 1)
    base = (scene.uniform(0.92, 1.08, 3) * scene.look.mucosa).astype(np.float32)
    return base[:, None, None] * (1 - blood * _BLOOD) * (1 - mucus * _MUCUS)


def _dome(scene: _Scene, x: float, y: float, radius: float) -> tuple[Plane, Plane, Plane]:
    """Distance from a polyp's centre, 1 on its outline, and the way down its side in x and y, all (S, S)."""
    dx, dy = scene.x - x, scene.y - y
    across, down = _stretch(dx, dy, scene.uniform(0, pi), scene.uniform(0.5, 1.0)) if scene.wide else (dx, dy)
    distance = _length(across, down)
    angle = np.arctan2(down, across)
    outline = np.full_like(angle, radius)
    for k in (2, 3, 4, 6):
        outline += radius * scene.uniform(0, 0.7 / k**2) * np.cos(k * angle + scene.uniform(0, 2 * pi))
    steps = _length(dx, dy)
    return np.divide(distance, outline), np.divide(dx, steps), np.divide(dy, steps)


def _length(dx: Plane, dy: Plane) -> Plane:
    """Length of offsets, never 0."""
    return np.add(np.sqrt(dx * dx + dy * dy), 1e-4)


def _stretch(dx: Plane, dy: Plane, turn: float, aspect: float) -> tuple[Plane, Plane]:
    """Offsets in the axes of an ellipse of unit area, whose shorter axis is `aspect` times the longer."""
    root = aspect**0.5
    across: Plane = (dx * cos(turn) + dy * sin(turn)) * root
    down: Plane = (dy * cos(turn) - dx * sin(turn)) / root
    return across, down


def _decoys(scene: _Scene) -> None:
    """Paint things that resemble polyps: bulges and short folds of plain mucosa, bubbles, specks of stool."""
    u = scene.uniform
    for _ in range(scene.rng.integers(0, 2)):  # bulges: relief alone, soft at the edge
        dx, dy = _stretch(scene.x - u(-0.9, 0.9), scene.y - u(-0.9, 0.9), u(0, pi), u(0.2, 0.9))
        away = np.divide(_length(dx, dy), u(0.1, 0.4))
        lit = np.exp(-away * away) * (u(-0.3, 0.3) + u(0.2, 0.7) * (u(-1, 1) * dx + u(-1, 1) * dy) / (away * 0.3))
        scene.shade *= np.clip(1 + lit, 0.4, 1.6)
    for _ in range(scene.rng.integers(0, 3)):  # bubbles: a bright rim and a glint; specks: a dark or yellow dot
        dx, dy, radius = scene.x - u(-0.9, 0.9), scene.y - u(-0.9, 0.9), u(0.03, 0.12)
        q = np.divide(_length(dx, dy), radius)
        if u(0, 1) < 0.5:
            scene.shade *= 1 + u(0.2, 0.6) * np.exp(-(((q - 1) * 5) ** 2))
            scene.glint += u(0.3, 0.9) * np.exp(
                -((dx + 0.4 * radius) ** 2 + (dy + 0.4 * radius) ** 2) * (8 / radius**2)
            )
        else:
            scene.albedo *= 1 - _smooth(0, 0.4, 1 - q) * (u(0.3, 0.9) * _MUCUS + u(0, 0.4))


def _polyp(scene: _Scene, lamp: Plane, spot: tuple[float, float, float]) -> npt.NDArray[np.bool_]:
    """Paint one polyp at ``spot`` (x, y, radius) with its shadow; give its support, (S, S)."""
    u = scene.uniform
    (q, dx, dy), contrast = _dome(scene, *spot), u(*scene.look.contrast)
    steep, edge, opacity = (0.4, 0.22, 0.75) if u(0, 1) < 0.3 else (u(0.8, 1.5), u(0.02, 0.1), 1.0)
    hue, rough = 0.0, 1.0
    if scene.wide:  # faint and strong ones, pale and red ones, smooth and rough ones
        contrast, hue, rough = contrast * u(0.8, 1.6), u(-0.2, 0.3), u(0.3, 1.6)
    # the lamp sits beside the lens, so a body is lit from the middle of the picture
    lx, ly = u(-0.3, 0.3) - 0.6 * spot[0], u(-0.3, 0.3) - 0.6 * spot[1]
    inner = np.minimum(q, 1)
    slope = steep * contrast * inner / (np.sqrt(1 - inner * inner) + 0.25)
    facing = lx * dx + ly * dy
    lit = np.maximum((1 + slope * facing) / np.sqrt(1 + slope * slope), 0.1) * (0.2 + 0.85 * lamp[q <= 1].mean())
    glint = np.exp(((slope * dx - lx) ** 2 + (slope * dy - ly) ** 2) * -30)
    texture = rough * (0.6 * scene.field(18) + 0.6 * scene.field(50))
    rim = np.exp(((q - 0.93) * 12) ** 2 * -1) * (0.5 + 0.35 * texture)
    redness = contrast * (0.15 * texture + 0.25 * rim + u(-0.2, 0.3) + hue)
    albedo = scene.albedo.mean(axis=(1, 2), keepdims=True) * (1 - redness * _POLYP)
    scene.shade *= 1 - 0.55 * contrast * np.clip(0.35 - facing, 0, 1) * np.exp(np.minimum(1 - q, 0) * 5)
    scene.cover(opacity * _smooth(-edge, edge, 1 - q), albedo, lit * (1 + 0.08 * texture), glint)
    return q <= 1


def _front(scene: _Scene) -> None:
    """Paint the fold before the lens and its shadow."""
    behind = scene.behind(scene.x, scene.y)
    scene.shade *= 1 - 0.5 * np.exp(np.minimum(behind, 0) * 8)
    albedo = scene.albedo.mean(axis=(1, 2), keepdims=True) * (1 - 0.1 * scene.field(8) * _BLOOD)
    shade = 0.55 + 0.5 * _smooth(0, 0.25, behind) + 0.06 * scene.field(6)
    scene.cover(_smooth(-0.01, 0.01, behind), albedo, shade, 0.0)


def _highlights(scene: _Scene) -> Plane:
    """Saturated spots where the wet wall mirrors the lamp, (S, S) in 0..1."""
    wet = 0.4 * scene.field(7) + 0.35 * (scene.field(18, 46) + scene.field(46, 18)) + 0.25 * scene.field(70)
    spots = wet + scene.shade - scene.uniform(2.15, 2.4)
    return np.clip(3 * np.maximum(spots, scene.glint + 0.25 * wet - 0.75), 0, 1)


def _camera(scene: _Scene) -> Image.Image:
    """Exposure, aperture, point spread, grain and sharpening."""
    look, shade = scene.look, np.maximum(scene.shade, 0.01)
    light = np.stack([shade, shade**1.3, shade**1.3])  # the dark is redder than the bright
    dark = np.exp(scene.albedo * light * -scene.uniform(*look.exposure)) * (1 - _highlights(scene))
    picture = (1 - dark) * (255 * _smooth(-0.01, 0.01, scene.aperture(scene.x, scene.y)))
    frame = Image.fromarray(np.ascontiguousarray(picture.astype(np.uint8).transpose(1, 2, 0)))
    frame = frame.filter(ImageFilter.GaussianBlur(look.blur * scene.size / 1000))
    grain = scene.fit(Image.fromarray(scene.rng.integers(0, 256, (_DETAIL, _DETAIL, 3), dtype=np.uint8)))
    noisy = np.clip(np.asarray(frame) + (grain - 127.5) * (look.noise / 74), 0, 255).astype(np.uint8)
    return Image.fromarray(noisy).filter(ImageFilter.UnsharpMask(0.012 * scene.size, round(100 * look.sharpen), 0))


def _record(scene: _Scene, frame: Image.Image) -> Picture:
    """Burn in the overlay, then compress."""
    size, insert = scene.size, scene.look.overlay == "insert"
    right, top = (round((edge + 1) / 2 * size) for edge in scene.box)
    frame.paste((12, 52, 34) if insert else (0, 0, 0), (0, top, right, size))
    if scene.look.overlay != "none":
        glyphs = scene.rng.random((24, 40)) < 0.6
        glyphs[5::6] = glyphs[:, 3::4] = glyphs[6:18, 24:] = False
        stamp = Image.fromarray(glyphs).resize((round(0.2 * size), round(0.16 * size)))
        frame.paste((225, 225, 225), (size // 64, round((0.28 if insert else 0.82) * size)), stamp)
    frame.save(file := io.BytesIO(), "JPEG", quality=scene.look.quality)
    return np.array(Image.open(file))


def _check(domain: str, size: int, **counts: int) -> None:
    if domain not in DOMAINS:
        raise ValueError(f"unknown phantom domain {domain!r}: expected one of {', '.join(DOMAINS)}")
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise ValueError(f"got phantom size {size}: expected {MIN_SIZE} to {MAX_SIZE} pixels a side")
    if min(counts.values()) < 0:
        raise ValueError(f"got {counts}: expected whole numbers from 0 upwards")


def _vary(look: Domain, rng: np.random.Generator) -> Domain:
    """The look of one picture of a clinic: as far from the clinic's as clinics are from each other."""
    red, green, blue = (rng.lognormal(0, 0.16, 3) * look.mucosa).tolist()
    low, high = (rng.lognormal(0, 0.25) * np.array(look.exposure)).tolist()
    return replace(
        look,
        mucosa=(red, green, blue),
        exposure=(low, high),
        falloff=float(np.clip(look.falloff + rng.uniform(-0.25, 0.1), 0, 1)),
        blur=look.blur * float(rng.lognormal(0, 0.5)),
        sharpen=max(0.0, float(look.sharpen + rng.normal(0, 0.5))),
        noise=look.noise * float(rng.lognormal(0, 0.5)),
        quality=int(np.clip(look.quality + rng.normal(0, 15), 20, 95)),
    )


def phantom(domain: str, index: int, seed: int = 0, size: int = 128, variety: Variety = "plain") -> Sample:
    """Draw picture ``index`` of a domain; the same arguments give the same bits.

    Args:
        domain: a key of `DOMAINS`.
        index: number of the picture.
        seed: seed of all pictures.
        size: side in pixels.
        variety: `plain`, pictures and polyps of a clinic that resemble each other; or `wide`, polyps of all sizes,
            forms and colours among bulges, bubbles and specks that are not polyps, in pictures each of which has a
            colour, light and sharpness of its own, so that a few labelled images do not show every kind.
    """
    _check(domain, size, index=index, seed=seed)
    entropy = seed, zlib.crc32(domain.encode()), index  # not the place in the table
    look, wide = DOMAINS[domain], variety == "wide"
    if wide:
        look = _vary(look, np.random.default_rng([*entropy, 1]))
    scene = _Scene(np.random.default_rng([*entropy]), look, size, wide)
    depth, angle, lamp = _lumen(scene)
    scene.albedo, scene.shade = _mucosa(scene), lamp * _folds(scene, depth, angle)
    if wide:
        _decoys(scene)
    supports = [_polyp(scene, lamp, spot) for spot in scene.polyps()]
    if scene.front[1] < 3:
        _front(scene)
    mask = np.any(supports, axis=0) & (scene.visible(scene.x, scene.y) > 0)
    return Sample(_record(scene, _camera(scene)), mask.astype(np.uint8))
