"""Photographs that a page sends: checked before they are decoded, and kept in memory."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import cv2
import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image

from gauntlet.datasets.images import read_image
from gauntlet.errors import GauntletError
from gauntlet.samples import Sample

MOST_BYTES = 20 * 2**20
MOST_PIXELS = 50_000_000
"""More is a decompression bomb, or no use: 50 megapixels take 150 MB."""
LONGEST_SIDE = 512
"""Larger photographs are made smaller, so that a step of an attack stays short."""
KEPT = 8
"""Uploads that are remembered; older ones are forgotten."""
FORMATS = ("JPEG", "PNG", "WEBP")

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns the pixels of a camera upright, by the EXIF tag."""


def read_upload(content: bytes) -> Sample:
    """The sample of an uploaded file; its id is the name of the PNG file that holds exactly these pixels."""
    if len(content) > MOST_BYTES:
        raise too_large()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "upload"
        path.write_bytes(content)
        orientation = _check(path)
        pixels = _decoded(path)
    if orientation in _UPRIGHT:
        pixels = np.array(Image.fromarray(pixels).transpose(_UPRIGHT[orientation]))
    pixels = _smaller(pixels)
    digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()
    return Sample(f"upload-{digest[:12]}.png", pixels)


def too_large() -> GauntletError:
    """The error for a file with too many bytes."""
    return GauntletError(f"the upload is larger than {MOST_BYTES // 2**20} MB; send a smaller image.")


def _check(path: Path) -> int:
    """The orientation of the image, from its header; an error for what is no image, or too many pixels."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise GauntletError(
                    f"the upload has {image.width} x {image.height} pixels, more than {MOST_PIXELS // 10**6} "
                    "megapixels; send a smaller image."
                )
            return _orientation(image)
    except (OSError, SyntaxError, ValueError, TypeError, Image.DecompressionBombError):
        raise GauntletError(f"the upload is no image in one of the formats {', '.join(FORMATS)}.") from None


def _orientation(image: Image.Image) -> int:
    """What the camera says about up and down; 1 (upright) where the tag is broken, which is no reason to refuse."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow's reader fails in many ways on damaged tags
        return 1


def _decoded(path: Path) -> npt.NDArray[np.uint8]:
    try:
        return read_image(path, convert=True)
    except GauntletError:
        raise GauntletError("the upload cannot be decoded; send an 8-bit image that other programs open.") from None


def _smaller(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """An image whose longer side has at most LONGEST_SIDE pixels."""
    height, width = pixels.shape[:2]
    factor = LONGEST_SIDE / max(height, width)
    if factor >= 1:
        return pixels
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.ascontiguousarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


class Uploads:
    """The last few uploads by name, for all pages of a playground."""

    def __init__(self) -> None:
        self._samples: OrderedDict[str, Sample] = OrderedDict()
        self._lock = Lock()

    def add(self, sample: Sample) -> None:
        """Remembers a sample."""
        with self._lock:
            self._samples[sample.id] = sample
            self._samples.move_to_end(sample.id)
            while len(self._samples) > KEPT:
                self._samples.popitem(last=False)

    def __getitem__(self, name: str) -> Sample:
        with self._lock:
            if name not in self._samples:
                raise GauntletError(f"the image '{name[:80]}' is not in this playground; upload it (again).")
            return self._samples[name]
