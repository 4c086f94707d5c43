"""Image files as arrays: pixels as stored, nothing rotated, nothing converted without a word."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from gauntlet.errors import GauntletError

# How a file ends that was not cut off; OpenCV, unlike Pillow, reads on in a file that was.
_ENDINGS = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}

# How far apart Pillow puts the grey values of images with fewer than 8 bits, by how they are packed.
_SPREAD = {"L;2": 85, "L;4": 17}
_ORIENTATION = 0x0112

_LOGGER = logging.getLogger(__name__)
_MODES = {"L": "greyscale", "RGBA": "transparent (RGBA)", "LA": "greyscale and transparent", "P": "of a palette"}
_CONVERTIBLE = ("1", "L", "LA", "P", "PA", "RGBA", "RGBX", "CMYK", "YCbCr")


def read_image(path: Path, *, convert: bool | None = False) -> npt.NDArray[np.uint8]:
    """An image file as uint8 (H, W, 3), RGB.

    The orientation tag of a camera (EXIF) is not applied: published labels and boxes refer to the pixels as stored.

    Args:
        path: the file.
        convert: turn greyscale, palette, CMYK and transparent images into RGB; None says so once for a folder; False
            makes them an error.
    """
    with _open(path) as image:
        if image.format == "GIF" and _frames(image, path) > 1:
            raise GauntletError(f"the image '{path}' is an animation; expected a single picture.")
        if image.mode == "RGB":
            fast = _decode(path, image.format)
            return np.array(_loaded(image, path)) if fast is None else fast
        if image.mode not in _CONVERTIBLE:
            raise GauntletError(f"the image '{path}' has the mode {image.mode}; expected 8-bit RGB.")
        if convert is False:
            raise GauntletError(
                f"the image '{path}' has the mode {image.mode}, not RGB; convert the file, or load the dataset with "
                "convert=True."
            )
        if convert is None:
            note_conversion(str(path.parent), image.mode)
        return np.array(_loaded(image, path).convert("RGB"))


@cache
def note_conversion(where: str, mode: str) -> None:
    """Says once that images of a mode are turned into RGB.

    Args:
        where: their folder or dataset.
        mode: as Pillow calls it ("L", "RGBA").
    """
    kind = _MODES.get(mode, f"of mode {mode}")
    _LOGGER.warning("images in '%s' are %s; they are turned into RGB (convert=False makes them an error)", where, kind)


def read_indices(path: Path) -> npt.NDArray[np.integer]:
    """A label image as the integers it stores, (H, W): grey values, or palette indices (never palette colours).

    Grey values of 2 and 4 bits are those in the file, 0 to 3 and 0 to 15; Pillow spreads them over 0 to 255.
    """
    with _open(path) as image:
        if image.mode == "1":
            return np.array(_loaded(image, path)).astype(np.uint8)
        if image.mode in ("L", "P", "I", "I;16", "I;16B"):
            step = _SPREAD.get(_packing(image), 1)  # asked before the pixels are read, which forgets it
            stored = np.array(_loaded(image, path))
            return stored if step == 1 else np.asarray(stored // step, dtype=np.uint8)
        raise GauntletError(
            f"the label image '{path}' has the mode {image.mode}; expected one channel of class indices "
            "(greyscale or palette)."
        )


def _packing(image: Image.Image) -> str:
    """How an image file packs its pixels, as Pillow calls it ("L;4": grey in 4 bits), or ""."""
    tiles = getattr(image, "tile", []) if image.mode == "L" else []
    arguments = tiles[0][3] if tiles else ""
    return str(arguments if isinstance(arguments, str) else next(iter(arguments or ()), ""))


def read_colors(path: Path) -> npt.NDArray[np.integer]:
    """A label image as one integer per pixel, (H, W): 65536 R + 256 G + B."""
    with _open(path) as image:
        if image.mode not in ("RGB", "RGBA", "P", "L", "1"):
            raise GauntletError(f"the label image '{path}' has the mode {image.mode}; expected colours (RGB).")
        pixels = np.array(_loaded(image, path).convert("RGB")).astype(np.int32)
    return np.asarray((pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2], dtype=np.int32)


def stored_size(path: Path) -> tuple[int, int]:
    """Height and width of an image file as stored, from its header."""
    with _open(path) as image:
        return image.height, image.width


def is_turned(path: Path) -> bool:
    """True if a camera's tag (EXIF) tells viewers to rotate or mirror the image."""
    with _open(path) as image:
        return image.getexif().get(_ORIENTATION, 1) not in (0, 1)


def color_mode(path: Path) -> str:
    """The mode of an image file ("L", "P", "RGB"), from its header."""
    with _open(path) as image:
        return str(image.mode)


# What Pillow's readers raise for damaged files; that of GIF does not look whether a block is there before it takes it.
_DAMAGED = (OSError, SyntaxError, ValueError, IndexError)


def _open(path: Path) -> Image.Image:
    """The image with its header read; `_loaded` reads the pixels."""
    try:
        return Image.open(path)
    except FileNotFoundError:
        raise GauntletError(f"the file '{path}' is missing.") from None
    except (*_DAMAGED, Image.DecompressionBombError) as error:
        raise _unreadable(path, error) from error


def _loaded(image: Image.Image, path: Path) -> Image.Image:
    try:
        image.load()
    except _DAMAGED as error:
        raise _unreadable(path, error) from error
    return image


def _frames(image: Image.Image, path: Path) -> int:
    try:
        return int(getattr(image, "n_frames", 1))
    except _DAMAGED as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> GauntletError:
    return GauntletError(f"the file '{path}' cannot be read as an image: {error}.")


def _decode(path: Path, file_format: str | None) -> npt.NDArray[np.uint8] | None:
    """The pixels by OpenCV, equal to and faster than Pillow's (JPEG twice), or None where Pillow is to be asked."""
    ending = _ENDINGS.get(file_format or "")
    content = path.read_bytes() if ending else b""
    if not ending or not content.endswith(ending):
        return None
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), flags)
    return None if pixels is None else np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), dtype=np.uint8)
