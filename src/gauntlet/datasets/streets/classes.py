"""The eleven CamVid classes in CamVid's order, void, and the classes that come with boxes."""

from __future__ import annotations

SKY, BUILDING, POLE, ROAD, PAVEMENT, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST, VOID = range(12)

CLASS_NAMES = (
    "sky",
    "building",
    "pole",
    "road",
    "pavement",
    "tree",
    "sign_symbol",
    "fence",
    "car",
    "pedestrian",
    "bicyclist",
)

COLORS = (
    (128, 128, 128),
    (128, 0, 0),
    (192, 192, 128),
    (128, 64, 128),
    (60, 40, 222),
    (128, 128, 0),
    (192, 128, 128),
    (64, 64, 128),
    (64, 0, 128),
    (64, 64, 0),
    (0, 128, 192),
)

BOX_CLASSES = (CAR, PEDESTRIAN, BICYCLIST, SIGN)
BOX_CLASS_NAMES = tuple(CLASS_NAMES[label] for label in BOX_CLASSES)
