"""The pinhole camera: it looks level along +z; x points right, y up, in metres, with the ground at y = 0."""

from __future__ import annotations

from typing import NamedTuple

SUPERSAMPLING = 2  # samples per pixel and axis; colours are averaged, labels elected


class Lens(NamedTuple):
    """A camera without a sensor, so that a scene does not depend on the size of its picture.

    Attributes:
        eye: height of the camera above the ground in metres.
        focal: focal length in picture heights.
        horizon: where the horizon lies, as a share of the picture's height from the top. It is moved by shifting
            the sensor, not by tilting the camera: depth stays equal to z.
    """

    eye: float
    focal: float
    horizon: float


class Camera(NamedTuple):
    """A lens and a sensor of some size; everything in supersampled pixels.

    Attributes:
        eye: height above the ground in metres.
        focal: focal length.
        center_x: column of the optical axis.
        center_y: row of the horizon.
        width, height: of the supersampled picture.
    """

    eye: float
    focal: float
    center_x: float
    center_y: float
    width: int
    height: int

    @classmethod
    def of(cls, lens: Lens, size: tuple[int, int]) -> Camera:
        """The camera for a picture of (height, width) pixels; a wider picture shows more to the sides."""
        height, width = size[0] * SUPERSAMPLING, size[1] * SUPERSAMPLING
        return cls(lens.eye, lens.focal * height, width / 2, lens.horizon * height, width, height)
