"""Pictures as texts that a page shows without asking for more: data addresses."""

from __future__ import annotations

import base64

import cv2

from gauntlet.pictures import Image

_KINDS = {".png": ("image/png", []), ".jpg": ("image/jpeg", [cv2.IMWRITE_JPEG_QUALITY, 88])}


def encode(picture: Image, ending: str) -> str:
    """A picture as a data address; ".png" is exact, ".jpg" a third of it, for pictures that the next one replaces."""
    kind, settings = _KINDS[ending]
    _, content = cv2.imencode(ending, picture[..., ::-1], settings)
    return f"data:{kind};base64,{base64.b64encode(content.tobytes()).decode()}"
