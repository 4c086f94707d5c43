"""A picture of a scene: colours, labels, objects and depth from one pass over one set of buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.streets.camera import SUPERSAMPLING, Camera
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.light import Light
from gauntlet.datasets.streets.noise_tiles import noise_tiles
from gauntlet.datasets.streets.raster import Buffers, fill_faces, fill_shadows, orient
from gauntlet.datasets.streets.shading import Scenery, draw_borders, resolve
from gauntlet.datasets.streets.world import Scene

_BORDER_HEIGHT = 128  # a void border is one pixel wide for every so many rows of the picture


class Picture(NamedTuple):
    """A rendered scene.

    Attributes:
        image: uint8 (H, W, 3), RGB.
        labels: uint8 (H, W); 11 is void.
        instances: int32 (H, W); 0 is no instance.
        depth: float32 (H, W), metres along the optical axis; inf in the sky.
        instance_labels: (N,) the class of instance k at k - 1.
        visible: (N,) share of instance k's silhouette inside the picture that nothing covers, at k - 1.
    """

    image: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8]
    instances: npt.NDArray[np.int32]
    depth: npt.NDArray[np.float32]
    instance_labels: npt.NDArray[np.int64]
    visible: npt.NDArray[np.float64]


def _received(normals: npt.NDArray[np.float64], light: Light) -> npt.NDArray[np.float64]:
    """(F, 3) light that faces receive from the sky and the sun (Lambert)."""
    sun = normals[:, 0] * light.sun[0] + normals[:, 1] * light.sun[1] + normals[:, 2] * light.sun[2]
    sky = 0.9 + 0.1 * normals[:, 1]
    return np.asarray(
        sky[:, None] * np.array(light.ambient) + np.maximum(sun, 0.0)[:, None] * np.array(light.sun_color)
    )


def render(scene: Scene, size: tuple[int, int], static: Dice) -> Picture:
    """Renders a scene.

    Args:
        scene: what to show.
        size: (height, width) in pixels.
        static: draws the camera's noise.
    """
    camera = Camera.of(scene.lens, size)
    vertices, bounds, faces = scene.mesh.tables()
    normals, planes = np.zeros((len(faces), 3)), np.zeros((len(faces), 3))
    orient(vertices, bounds, camera, normals, planes)
    fractal, grain = noise_tiles()

    samples = (camera.height, camera.width)
    buffers = Buffers.empty(samples)
    silhouettes = np.zeros(len(scene.mesh.instance_labels) + 1, np.int64)
    fill_faces(vertices, bounds, faces, planes, camera, grain, buffers, np.zeros(samples, np.int32), silhouettes)
    fill_shadows(*scene.shadows.tables(), camera, buffers.shadow)

    height, width = size
    image, labels = np.empty((height, width, 3), np.uint8), np.empty(size, np.uint8)
    instances, depth = np.empty(size, np.int32), np.empty(size, np.float32)
    noise = static.bytes(height * width * 6).reshape(height, width, 3, 2)
    received = _received(normals, scene.light)
    scenery = Scenery(camera, scene.street, scene.light, faces, normals, planes, received, fractal, grain)
    resolve(scenery, buffers, noise, image, labels, instances, depth)
    bordered = np.array([False, *scene.mesh.bordered])
    draw_borders(labels, instances, bordered, max(1, round(height / _BORDER_HEIGHT)))

    counts = np.bincount(instances.ravel(), minlength=len(silhouettes))[1:]
    visible = np.minimum(1.0, counts * SUPERSAMPLING**2 / np.maximum(silhouettes[1:], 1))
    return Picture(image, labels, instances, depth, np.array(scene.mesh.instance_labels, np.int64), visible)
