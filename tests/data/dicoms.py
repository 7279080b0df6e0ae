"""DICOM files for tests, made with pydicom."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

pydicom: Any = pytest.importorskip("pydicom", reason="DICOM files need pydicom, the extra dicom")

PATIENT = "Doe^Jane"
JPEG = "1.2.840.10008.1.2.4.50"  # baseline
EXPLICIT = "1.2.840.10008.1.2.1"  # little endian, not compressed


def dicom(frames: NDArray[Any], colour: str = "RGB", bits: int = 8, syntax: str = EXPLICIT, **tags: Any) -> bytes:
    """Return a file of frames (N, H, W) or (N, H, W, 3), given in the colours that the file has."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.uid import VLEndoscopicImageStorage, generate_uid

    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = syntax
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = VLEndoscopicImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = generate_uid()
    file.PatientName, file.PatientID = PATIENT, "12345"
    file.Rows, file.Columns = frames.shape[1:3]
    file.SamplesPerPixel = 1 if frames.ndim == 3 else 3
    file.PhotometricInterpretation = colour
    file.BitsAllocated, file.BitsStored, file.HighBit = (8 if bits <= 8 else 16), bits, bits - 1
    file.PixelRepresentation = 0
    if file.SamplesPerPixel == 3:
        file.PlanarConfiguration = 0
    if len(frames) > 1:
        file.NumberOfFrames = len(frames)
    packed = syntax != EXPLICIT
    file.PixelData = encapsulate([_jpeg(frame) for frame in frames]) if packed else frames.tobytes()
    for tag, value in tags.items():
        setattr(file, tag, value)
    target = io.BytesIO()
    file.save_as(target, enforce_file_format=True)
    return target.getvalue()


def _jpeg(frame: NDArray[Any]) -> bytes:
    target = io.BytesIO()
    Image.fromarray(frame).save(target, "JPEG", quality=95, subsampling=0)
    return target.getvalue()


def full_colours(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the YBR_FULL colours of RGB ones, by the standard's formula (PS3.3 C.7.6.3.1.2)."""
    matrix = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])
    return np.clip(np.rint(rgb @ matrix.T + [0, 128, 128]), 0, 255).astype(np.uint8)


def half_colours(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes of YBR_FULL_422, as (N, H, W * 2): two values of Y, then one of each colour for both."""
    full = full_colours(rgb)
    y, colour = full[..., 0], full[:, :, ::2, 1:]
    return np.concatenate([y[..., ::2, None], y[..., 1::2, None], colour], axis=-1).reshape(*rgb.shape[:2], -1)
