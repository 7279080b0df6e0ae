"""Picture files of every format, good and spoiled."""

from __future__ import annotations

from hypothesis import strategies as st
from PIL import Image

from tests.data.pictures import encoded, scene
from tests.fuzz.making import spoiled

MOVING = [Image.fromarray(scene(seed, 12, 16)) for seed in range(3)]
TAGS = Image.Exif()
TAGS[0x0112] = 6
GOOD = [
    *(encoded(MOVING[0], format) for format in ("JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF")),
    *(encoded(MOVING[0], format, save_all=True, append_images=MOVING[1:]) for format in ("GIF", "WEBP", "TIFF", "PNG")),
    *(encoded(MOVING[0], "TIFF", compression=packing) for packing in ("tiff_lzw", "jpeg", "tiff_deflate")),
    *(encoded(MOVING[0].convert(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGBA", "I;16")),
    *(encoded(MOVING[0].convert(mode), "TIFF") for mode in ("CMYK", "F", "I", "LAB", "YCbCr")),
    encoded(MOVING[0], "JPEG", exif=TAGS, progressive=True),
    encoded(MOVING[0].convert("CMYK"), "JPEG"),
]
ANY = st.one_of(spoiled(GOOD), st.binary(max_size=64), st.sampled_from(GOOD))


def strip(width: int) -> bytes:
    return encoded(Image.new("L", (width, 1)))
